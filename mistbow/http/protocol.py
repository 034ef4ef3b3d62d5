"""uvicorn's HTTP protocol with limits, and with a single write for an answer's head and body.

The limits are the size of a request's head and trailers, the time until the head is complete, the
time for which a client may stop reading an answer, and the number of connections.
"""

import asyncio
import fcntl
import functools
import sys
import termios
from http import HTTPStatus
from typing import Any, cast

from httptools import HttpParserError
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, RequestResponseCycle

from mistbow.asgi import CLIENT_CERTIFICATE, CLOSE_CONNECTION, COMPLETE_BODY, WHOLE_ANSWER
from mistbow.errors import HeadTooLargeError, InvalidRequestError, MistbowError, SlowRequestError
from mistbow.http.body_limits import TRAILER_TOO_LARGE, BodyLimits
from mistbow.http.coalescing_transport import CoalescingTransport
from mistbow.http.connections import CountedConnection, make_room, next_wait
from mistbow.http.error_forms import own_form
from mistbow.http.upgrades import PlainProtocol
from mistbow.open_files import max_connections

_MAX_HEAD_BYTES = 64 * 2**10
_MAX_PARSED_URL_BYTES = 2**16 - 1
"""The length of a URL beyond which the parser raises an error."""

_HEAD_TIMEOUT_S = 20.0
_READER_TIMEOUT_S = 30.0
_HALF_CLOSED_TIMEOUT_S = 3.0
_SENT_CHECK_S = 0.05
_MAX_REST_BYTES = 128 * 2**20
_MAX_REJECTED_BYTES = 2**20
_TOO_LARGE = HeadTooLargeError(
    f"the request line and the headers are larger than {_MAX_HEAD_BYTES} bytes",
    hint="Send fewer or shorter headers; long parameters belong in the body.",
)
_TOO_SLOW = SlowRequestError(
    f"the request line and the headers were not received within {_HEAD_TIMEOUT_S:g} s",
    hint="Send the whole head of a request at once.",
)
_INVALID = InvalidRequestError(
    "the request is not valid HTTP/1.1",
    hint="Check the client; a service with TLS is reached by https:// only.",
)
_FOREIGN_TARGET = InvalidRequestError(
    "the address in the request line is not that of the header Host",
    hint="Send the path alone in the request line, or the same address in both. This service is "
    "not a proxy.",
)
_NO_HOST = InvalidRequestError(
    "the request has no header Host, which HTTP/1.1 requires",
    hint="Send the header, as in Host: 127.0.0.1:8300, or HTTP/1.0.",
)


class BoundedProtocol(PlainProtocol):
    """An HTTP protocol that closes connections whose request head is too large, too slow or for
    another host, or whose client stalls.

    A client stalls if, for ``reader_seconds``, the client reads nothing of an answer. Without this
    limit, the request would occupy memory, and count towards the limit of concurrent requests, for
    ever.

    A client may close its sending side after a request, and still read the answer. A client that
    has gone looks the same until the server writes to it, so the answer must end within
    ``half_closed_seconds``.

    Trailers (headers after the body) are ignored: they would replace headers that were checked.

    Some answers, such as an error 401 or 404, do not need the body. The rest of the body is then
    discarded; it must arrive within ``head_seconds``, and have at most ``max_rest_bytes``. If the
    connection ends with this answer, it is closed after the rest. After an error of the protocol
    itself, the end of the request is unknown: the connection closes after the client, after
    ``half_closed_seconds`` or after 1 MiB.

    If there are more than ``max_connections`` connections, the connections that have waited longest
    for the rest of a request, or for the next request, are closed. Otherwise, idle connections of
    one client could use up the open files of the process, and no other client could connect. None:
    half of the limit on the open files of the process.
    """

    max_connections: int | None = None
    head_seconds = _HEAD_TIMEOUT_S
    reader_seconds = _READER_TIMEOUT_S
    half_closed_seconds = _HALF_CLOSED_TIMEOUT_S
    max_rest_bytes = _MAX_REST_BYTES

    _head_bytes = 0
    _head_is_open = True
    _head_timer: asyncio.TimerHandle | None = None
    _unread_bytes = 0
    _reader_timer: asyncio.TimerHandle | None = None
    _half_closed_timer: asyncio.TimerHandle | None = None
    _end_timer: asyncio.TimerHandle | None = None
    _is_rejected = False
    """Whether the connection was answered with an error of the protocol, and reads nothing more."""

    waits_since = 0

    @classmethod
    def connection_limit(cls) -> int:
        """Return how many connections the service may have."""
        return cls.max_connections or max_connections()

    def is_waiting(self) -> bool:
        """Return whether the connection waits for a request or its rest, not for an answer."""
        cycle = self.cycle
        return self._is_rejected or cycle is None or cycle.response_complete or cycle.more_body

    def close_now(self) -> None:
        """Close the connection, also if the client does not read the rest of an answer."""
        self.transport.close()
        # TLS would wait for the client to confirm the end.
        if self.transport.get_write_buffer_size() or self._has_tls():
            self.transport.abort()

    def shutdown(self) -> None:
        """Close the connection when the server stops, after the answer in work.

        With TLS, ``close`` waits until an idle client confirms the end, which would delay the stop.
        """
        is_idle = self.cycle is None or self.cycle.response_complete
        super().shutdown()
        if is_idle and self._has_tls():
            self._end_timer = self.loop.call_later(_SENT_CHECK_S, self._abort_when_sent)

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.transport = CoalescingTransport(  # type: ignore[assignment]
            transport, self.loop, self._must_linger
        )
        self._body = BodyLimits(self.loop, self.transport.close)
        self._extensions: dict[str, dict[Any, Any]] = {
            CLOSE_CONNECTION: {"close": self._close_in_time}
        }
        # A certificate that is not valid has ended the handshake.
        if transport.get_extra_info("peercert"):
            self._extensions[CLIENT_CERTIFICATE] = {}
        self._open_head()
        self._start_head_timer()
        make_room(cast("set[CountedConnection]", self.connections), self.connection_limit())

    def connection_lost(self, exc: Exception | None) -> None:
        self._close_head()
        self._cancel_reader_timer()
        self._body.cancel_rest()
        for timer in (self._half_closed_timer, self._end_timer):
            if timer is not None:
                timer.cancel()
        super().connection_lost(exc)

    def eof_received(self) -> bool:  # type: ignore[override]
        """Return whether the connection remains open after the client has closed its sending side.

        The connection remains open if the client awaits answers.
        """
        # TLS has no half-closed connections.
        if self.is_waiting() or self._has_tls():
            # The event loop closes the transport below, which has no answers of this iteration yet.
            cast("CoalescingTransport", self.transport).flush()
            return False
        if self._half_closed_timer is None:
            self._half_closed_timer = self.loop.call_later(
                self.half_closed_seconds, self.transport.close
            )
        return True

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self.waits_since = next_wait()
        # A pipelined request may follow, whose body is awaited.
        if self._body.is_open and self.cycle.response_complete:
            self._body.await_rest(self.head_seconds, self.max_rest_bytes)
        if self._half_closed_timer is not None and self.is_waiting():
            self.transport.close()

    def data_received(self, data: bytes) -> None:
        if not self._body.accepts_rest(len(data)):
            self.transport.close()
            return
        rest = memoryview(data)
        while rest and not self._is_rejected:
            size = self._body.parsed_at_once(len(rest))
            if not self._parse(rest[:size]):
                break
            rest = rest[size:]

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._body.restart_count()
        self._open_head()

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._head_is_open:
            super().on_header(name, value)

    def on_body(self, body: bytes) -> None:
        self._body.restart_count()
        super().on_body(body)

    def on_message_complete(self) -> None:
        if self.is_first_parse():
            return
        self._body.end()
        super().on_message_complete()
        if self.transport.is_closing():
            # The connection lingered for the rest of this body.
            self.transport.close()

    def on_headers_complete(self) -> None:
        if self.is_first_parse():
            return
        self._body.begin()
        self._close_head()
        # One read may bring the rest of a body after the last answer, and further requests.
        if self.transport.is_closing():
            return
        # One read may have brought a head that is complete and yet too large.
        if self._parsed_head_bytes() > _MAX_HEAD_BYTES:
            self._reject(_TOO_LARGE)
            # Ends the parsing of later data; the connection closes.
            raise HttpParserError(_TOO_LARGE.message)
        # The check of Host would not see the address that the request names (RFC 9112, 3.2.2).
        if self.is_for_proxy() or (not self.url.startswith(b"/") and not self._has_own_target()):
            self._reject(_FOREIGN_TARGET)
            raise HttpParserError(_FOREIGN_TARGET.message)
        headers = dict(self.headers)
        if b"host" not in headers and self.parser.get_http_version() == "1.1":  # RFC 9112, 3.2
            self._reject(_NO_HOST)
            raise HttpParserError(_NO_HOST.message)
        self._body.is_chunked = b"transfer-encoding" in headers
        super().on_headers_complete()
        # The task of the request starts later; the cycle of a later request may replace this one.
        cycle = self.cycle
        self.scope["extensions"] = {
            **self._extensions,
            COMPLETE_BODY: {"received": lambda: not cycle.more_body},
            WHOLE_ANSWER: {"send": functools.partial(_send_whole, cycle)},
        }

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002
        """Reject a request that the parser cannot read, in the form of all errors."""
        is_too_long = len(getattr(self, "url", b"")) > _MAX_PARSED_URL_BYTES
        self._reject(_TOO_LARGE if is_too_long else _INVALID)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._start_reader_timer()

    def resume_writing(self) -> None:
        self._cancel_reader_timer()
        super().resume_writing()

    def _parse(self, data: memoryview) -> bool:
        """Parse a part of the received data, and count its bytes; return as ``parse`` does."""
        is_of_head = self._head_is_open
        self._body.count(len(data))
        goes_on = self.parse(data)
        if self._body.has_large_trailer() and not self._head_is_open:
            self._reject(TRAILER_TOO_LARGE)
        if self._head_is_open:
            # Most heads are received at once, and need no timer.
            if self._head_timer is None:
                self._start_head_timer()
            # A head that has begun here may follow a body.
            self._head_bytes += len(data) if is_of_head else 0
            if self._head_bytes > _MAX_HEAD_BYTES:
                self._reject(_TOO_LARGE)
        return goes_on

    def _has_tls(self) -> bool:
        return self.transport.get_extra_info("sslcontext") is not None

    def _has_own_target(self) -> bool:
        """Return whether a target that is no path is ``*``, or has the host of the header Host."""
        _, is_absolute, rest = self.url.partition(b"://")
        address = rest.partition(b"/")[0].partition(b"?")[0]
        hosts = {value.lower() for name, value in self.headers if name == b"host"}
        return self.url == b"*" or (bool(is_absolute) and hosts == {address.lower()})

    def _parsed_head_bytes(self) -> int:
        # Four bytes separate and end a header: ": " and CRLF.
        return len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers)

    def _close_in_time(self) -> None:
        """Close the connection, also if the client does not read the rest of the answer."""
        self.transport.close()
        self.loop.call_later(self.reader_seconds, self.transport.abort)

    def _open_head(self) -> None:
        self.waits_since = next_wait()
        self._close_head()
        self._head_is_open = True

    def _start_head_timer(self) -> None:
        self._head_timer = self.loop.call_later(self.head_seconds, self._reject, _TOO_SLOW)

    def _close_head(self) -> None:
        self._head_bytes = 0
        self._head_is_open = False
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _reject(self, error: MistbowError) -> None:
        self._close_head()
        if self._is_rejected:
            return
        self._is_rejected = True
        if not self.transport.is_closing():
            body, kind = own_form(error, error.status)
            head = (
                f"HTTP/1.1 {error.status} {HTTPStatus(error.status).phrase}\r\n"
                f"Connection: close\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n"
            )
            self.transport.write(head.encode() + body)
            self._body.await_rest(self.half_closed_seconds, _MAX_REJECTED_BYTES)
            if self.cycle is not None and not self.cycle.response_complete:
                # A request in work cannot be answered any more.
                self.cycle.disconnected = True
                self.cycle.message_event.set()
        self.transport.close()

    def _must_linger(self) -> bool:
        """Return whether the connection closes only after the rest of the client's data."""
        cycle = self.cycle
        is_early = cycle is not None and cycle.response_complete and not cycle.keep_alive
        if self._is_rejected or (is_early and self._body.is_open):
            self.flow.resume_reading()
            return True
        return False

    def _start_reader_timer(self) -> None:
        self._cancel_reader_timer()
        self._unread_bytes = self._count_unread_bytes()
        self._reader_timer = self.loop.call_later(self.reader_seconds, self._check_reader)

    def _cancel_reader_timer(self) -> None:
        if self._reader_timer is not None:
            self._reader_timer.cancel()
            self._reader_timer = None

    def _check_reader(self) -> None:
        if self._count_unread_bytes() < self._unread_bytes:
            self._start_reader_timer()
        else:
            # close() would wait until the rest is written.
            self.transport.abort()

    def _abort_when_sent(self) -> None:
        if self._count_unread_bytes():
            self._end_timer = self.loop.call_later(_SENT_CHECK_S, self._abort_when_sent)
        else:
            self.transport.abort()

    def _count_unread_bytes(self) -> int:
        """Return the number of unsent bytes in the transport's and the kernel's buffers."""
        socket = self.transport.get_extra_info("socket").fileno()
        sent = fcntl.ioctl(socket, termios.TIOCOUTQ, bytes(4))
        return self.transport.get_write_buffer_size() + int.from_bytes(sent, sys.byteorder)


def _send_whole(cycle: RequestResponseCycle, status: int, headers: bytes, body: bytes) -> bool:
    """Write the answer of a request at once; return False if ASGI's messages must do it.

    This does the same as ``RequestResponseCycle.send`` does with the two messages of an answer.
    """
    if cycle.response_started or cycle.disconnected or cycle.flow.write_paused:
        return False
    cycle.response_started = cycle.response_complete = True
    cycle.waiting_for_100_continue = False
    lines = [STATUS_LINE[status]]
    for name, value in cycle.default_headers:
        lines += (name, b": ", value, b"\r\n")
    lines.append(headers)
    if not cycle.keep_alive:
        lines.append(b"connection: close\r\n")
    cycle.transport.write(b"%b\r\n%b" % (b"".join(lines), body))
    cycle.message_event.set()
    if not cycle.keep_alive:
        cycle.transport.close()
    cycle.on_response()
    return True
