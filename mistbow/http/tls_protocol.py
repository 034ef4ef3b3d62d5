"""TLS of a service, whose handshakes count as connections and must end in time.

With TLS of its own, an event loop shows a connection to its protocol only after the handshake. So
handshakes that never complete would use up the open files of the process without being counted.
Here a protocol has the connection from its beginning, and starts the handshake.
"""

import asyncio
import os
import socket
import ssl
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, cast

import uvicorn

from mistbow.http.connections import CountedConnection, make_room, next_wait
from mistbow.http.protocol import BoundedProtocol
from mistbow.tls import TlsFiles, server_context


def serve_tls(config: uvicorn.Config, files: TlsFiles) -> None:
    """Configure a server to serve https only.

    The HTTP protocol of the configuration must be a ``BoundedProtocol``. Changed files are read
    again; uvicorn's own TLS reads its files only once.
    """
    config.load()
    protocol = cast("type[BoundedProtocol]", config.http_protocol_class)
    context = server_context(files)
    config.ssl = None

    def create(**options: Any) -> TlsHandshake:
        connections = options["server_state"].connections
        return TlsHandshake(context, connections, protocol, partial(protocol, **options))

    config.http_protocol_class = cast("Any", create)


class TlsHandshake(asyncio.Protocol):
    """A connection until its TLS handshake is complete; then a protocol of HTTP serves it.

    ``connections``: all of the service. ``http``: has the limits on connections and times.
    ``create``: returns the protocol of HTTP.
    """

    def __init__(
        self,
        context: ssl.SSLContext,
        connections: set[CountedConnection],
        http: type[BoundedProtocol],
        create: Callable[[], asyncio.Protocol],
    ) -> None:
        self.waits_since = next_wait()
        self._context = context
        self._connections = connections
        self._http = http
        self._create = create
        self._socket: socket.socket | None = None
        self._task: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Count the connection, and begin the handshake on a socket of its own."""
        try:
            # Nothing was read yet, but a transport would read before it can be upgraded to TLS.
            self._socket = socket.socket(fileno=os.dup(transport.get_extra_info("socket").fileno()))
        except OSError:  # too many open files
            return
        finally:
            cast("asyncio.Transport", transport).abort()
        self._connections.add(self)
        self._task = asyncio.get_running_loop().create_task(self._shake_hands(self._socket))
        make_room(self._connections, self._http.connection_limit())

    def is_waiting(self) -> bool:
        """Return True: a handshake answers no request."""
        return True

    def close_now(self) -> None:
        """Close the connection, which ends its handshake."""
        if self._socket is not None:
            # The client may have closed it already.
            with suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)

    shutdown = close_now
    """Called when the server stops, as of uvicorn's protocols."""

    async def _shake_hands(self, connection: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        try:
            await loop.connect_accepted_socket(
                self._create, connection, ssl=self._context,
                ssl_handshake_timeout=self._http.head_seconds,
            )  # fmt: skip
        except OSError:
            # Foreign or no TLS, a lost connection, or the time is over.
            pass
        finally:
            self._connections.discard(self)
