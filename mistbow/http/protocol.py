"""uvicorn's protocol, with bounds for which it has none: on heads, and on readers that stall.

And with one write for an answer's head and body.
"""

import asyncio
import fcntl
import sys
import termios
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

_MOST_BYTES = 64 * 2**10
_HELD_BYTES = 8 * 2**10
_MOST_S = 20.0
_READER_S = 30.0

_TOO_LARGE = b"431 Request Header Fields Too Large"
_TOO_SLOW = b"408 Request Timeout"


class JoiningTransport:
    """Does as another transport, but writes what comes within one turn of the loop at once.

    uvicorn writes a head and then the body: for whom it is woke up twice, and on few cores the
    first time in place of who still had to write the rest.
    """

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._held = bytearray()

    def write(self, data: bytes) -> None:
        """Write this, with what was written before it in this turn."""
        # More is not to be held: only the transport tells who makes it when that is too much.
        if len(self._held) + len(data) > _HELD_BYTES:
            self._flush()
            self._transport.write(data)
            return
        if not self._held:
            self._loop.call_soon(self._flush)
        self._held += data

    def close(self) -> None:
        """Close the transport when all is written."""
        self._flush()
        self._transport.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def _flush(self) -> None:
        if self._held and not self._transport.is_closing():
            self._transport.write(bytes(self._held))
        self._held.clear()


class BoundedProtocol(HttpToolsProtocol):
    """Ends connections whose next request line and headers are too large or too slow.

    And those of whose answer nothing is taken for ``reader_seconds``: it would hold its place,
    and what it is made of, for ever.
    """

    head_seconds = _MOST_S
    reader_seconds = _READER_S

    _head_bytes = 0
    _head_is_open = True
    _head_timer: asyncio.TimerHandle | None = None
    _untaken = 0
    _reader_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.transport = JoiningTransport(transport, self.loop)  # type: ignore[assignment]
        self._open_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._close_head()
        self._leave_reader()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        # Whole heads that came at once are as large as one reading of the socket, at most.
        if self._head_is_open:
            self._head_bytes += len(data)
            if self._head_bytes > _MOST_BYTES:
                self._refuse(_TOO_LARGE)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._open_head()

    def on_headers_complete(self) -> None:
        self._close_head()
        super().on_headers_complete()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._watch_reader()

    def resume_writing(self) -> None:
        self._leave_reader()
        super().resume_writing()

    def _open_head(self) -> None:
        self._close_head()
        self._head_is_open = True
        self._head_timer = self.loop.call_later(self.head_seconds, self._refuse, _TOO_SLOW)

    def _close_head(self) -> None:
        self._head_bytes = 0
        self._head_is_open = False
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _refuse(self, status: bytes) -> None:
        self._close_head()
        if not self.transport.is_closing():
            answer = b"HTTP/1.1 %b\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
            self.transport.write(answer % status)
            self.transport.close()

    def _watch_reader(self) -> None:
        self._leave_reader()
        self._untaken = self._left()
        self._reader_timer = self.loop.call_later(self.reader_seconds, self._look_at_reader)

    def _leave_reader(self) -> None:
        if self._reader_timer is not None:
            self._reader_timer.cancel()
            self._reader_timer = None

    def _look_at_reader(self) -> None:
        if self._left() < self._untaken:
            self._watch_reader()
        else:
            # What is left would be waited for if it were closed.
            self.transport.abort()

    def _left(self) -> int:
        """Return how many bytes the other side has not taken: those here, and the kernel's."""
        socket = self.transport.get_extra_info("socket").fileno()
        sent = fcntl.ioctl(socket, termios.TIOCOUTQ, bytes(4))
        return self.transport.get_write_buffer_size() + int.from_bytes(sent, sys.byteorder)
