"""uvicorn's protocol, with a bound on the head of a request, for which it has none of its own."""

import asyncio

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

_MOST_BYTES = 64 * 2**10
_MOST_S = 20.0

_TOO_LARGE = b"431 Request Header Fields Too Large"
_TOO_SLOW = b"408 Request Timeout"


class BoundedHeads(HttpToolsProtocol):
    """Ends connections whose next request line and headers are too large or too slow."""

    head_seconds = _MOST_S

    _head_bytes = 0
    _head_is_open = True
    _head_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._open_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._close_head()
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
