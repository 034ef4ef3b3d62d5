"""A transport that writes the head and the body of an answer at once."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any

_MAX_COALESCED_BYTES = 8 * 2**10


class CoalescingTransport:
    """A transport that joins all writes of one iteration of the event loop, and that may linger.

    uvicorn writes the head and the body of an answer separately. Two writes would wake the client
    twice; on few cores, the client would run before the server has written the body.

    A lingering transport only receives. The kernel resets a connection that is closed before all
    that the client has sent is read, and a client that is reset may lose the answer.
    ``must_linger``: returns whether the transport lingers when it is closed for the first time; the
    second call of ``close`` closes it.
    """

    def __init__(
        self,
        transport: asyncio.Transport,
        loop: asyncio.AbstractEventLoop,
        must_linger: Callable[[], bool],
    ) -> None:
        self._transport = transport
        self._loop = loop
        self._must_linger = must_linger
        self._lingers = False
        self._buffer = bytearray()

    def write(self, data: bytes) -> None:
        """Write data, together with other writes of the same iteration of the event loop."""
        if self._lingers:
            return
        # Larger data goes to the transport at once, which applies backpressure.
        if len(self._buffer) + len(data) > _MAX_COALESCED_BYTES:
            self.flush()
            self._transport.write(data)
            return
        if not self._buffer:
            self._loop.call_soon(self.flush)
        self._buffer += data

    def close(self) -> None:
        """Write the remaining data, and close the transport, or its sending side if it lingers."""
        self.flush()
        if self.is_closing() or not self._must_linger():
            self._transport.close()
            return
        self._lingers = True
        # TLS cannot close one side; HTTP clients find the end of an answer by its length.
        if self._transport.can_write_eof():
            with suppress(OSError):  # the client has reset the connection
                self._transport.write_eof()

    def is_closing(self) -> bool:
        """Return whether the transport lingers or is closing, so that nothing more is written."""
        return self._lingers or self._transport.is_closing()

    def flush(self) -> None:
        """Write the data of former writes, unless the transport is closing."""
        if self._buffer and not self._transport.is_closing():
            self._transport.write(bytes(self._buffer))
        self._buffer.clear()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)
