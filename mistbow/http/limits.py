"""Limits on the size and time of request bodies, and on the number of concurrent requests."""

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from urllib.parse import parse_qs

from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mistbow.asgi import COMPLETE_BODY, extension
from mistbow.errors import (
    MistbowError,
    SlowRequestError,
    TooLargeError,
    TooManyRequestsError,
    UnsupportedError,
)

# Health checks, heartbeats and announcements matter most when there is much load.
_UNLIMITED_PATHS = (
    *("/healthz", "/readyz", "/metrics"),
    *("/challenge", "/fabric/greet", "/workers/"),
)
# Prometheus and Telegraf drop points that are answered with a status from 400 to 499.
_COLLECTOR_PATHS = ("/api/v1/write", "/write", "/api/v2/write")
_PLAIN = (b"", b"identity")
_CONCURRENT_BODIES = 16
"""The number of bodies of maximum size that the requests of a token may have at a time."""

_MIN_CONCURRENT_BYTES = 64 * 2**20
_COUNT_BODY = "mistbow.count_body"
"""The key of a request's scope under which ``count_body`` finds its function."""

_UNREAD_BODY = (SlowRequestError, TooLargeError, TooManyRequestsError, UnsupportedError)
_TRUE_VALUES = ("true", "t", "1", "yes", "y", "on")


class _RetriedSlowRequestError(SlowRequestError):
    """The error for a collector's slow body, with a status after which collectors retry."""

    status = 503


class _RetriedTooManyRequestsError(TooManyRequestsError):
    """The error for a collector's request beyond the limit, with a status after which collectors
    retry.
    """

    status = 503


class BodyLimit:
    """Middleware that rejects request bodies that are too large, too slow, or compressed.

    A body whose declared length is too large is rejected at once, as is a compressed body, except
    at the paths of collectors. Otherwise, the code that reads the body receives ``TooLargeError``
    or ``SlowRequestError``; or ``TooManyRequestsError`` if the bodies of all running requests of
    its token are too large together, decompressed ones included. ``current_token``: as in
    ``RequestLimit``.
    """

    def __init__(
        self, app: ASGIApp, max_bytes: int, seconds: float, current_token: Callable[[], str]
    ) -> None:
        self._app = app
        self._max = max_bytes
        self._max_of_token = max(_CONCURRENT_BODIES * max_bytes, _MIN_CONCURRENT_BYTES)
        self._seconds = seconds
        self._current_token = current_token
        self._received: Counter[str] = Counter()  # token -> bytes of the bodies in memory

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = dict(scope["headers"])
        encoding = headers.get(b"content-encoding", b"")
        if encoding.lower() not in _PLAIN and not self._reads_compressed(scope):
            await _answer(_compressed(encoding), scope, receive, send)
            return
        declared = headers.get(b"content-length", b"0")
        if declared.isdigit() and int(declared) > self._max:
            await _answer(self._too_large(), scope, receive, send)
            return
        body = _Body(self._current_token())
        path = scope["path"]
        complete = extension(scope, COMPLETE_BODY)
        arrived = _unknown if complete is None else complete["received"]
        counting = {**scope, _COUNT_BODY: lambda length: self._count(body, length, path)}
        try:
            await self._app(counting, self._limited(receive, path, body, arrived), send)
        finally:
            self._received[body.token] -= body.size
            if not self._received[body.token]:
                del self._received[body.token]

    @staticmethod
    def _reads_compressed(scope: Scope) -> bool:
        return scope["path"] in _COLLECTOR_PATHS or scope["method"] in ("GET", "HEAD")

    def _limited(
        self, receive: Receive, path: str, body: "_Body", arrived: Callable[[], bool]
    ) -> Receive:
        """Return a function that receives the messages of a body; ``arrived``: the whole body was
        received, so that nothing is awaited.
        """
        deadline = asyncio.get_running_loop().time() + self._seconds
        complete = False

        async def limited_receive() -> Message:
            nonlocal complete
            if complete:
                # The next message is that the client disconnects, at any time.
                return await receive()
            if arrived():
                message = await receive()
            else:
                message = await self._receive_in_time(receive, deadline, path)
            complete = not message.get("more_body", False)
            length = len(message.get("body", b""))
            if body.size + length > self._max:
                raise self._too_large()
            self._count(body, length, path)
            return message

        return limited_receive

    async def _receive_in_time(self, receive: Receive, deadline: float, path: str) -> Message:
        try:
            async with asyncio.timeout_at(deadline):
                return await receive()
        except TimeoutError:
            raise self._too_slow(path) from None

    def _count(self, body: "_Body", length: int, path: str) -> None:
        body.size += length
        self._received[body.token] += length
        if self._received[body.token] > self._max_of_token:
            raise self._too_many(path)

    def _too_large(self) -> TooLargeError:
        return TooLargeError(
            f"the body is larger than {self._max} bytes",
            hint="Send less in one request, or raise MISTBOW_MAX_BODY_BYTES.",
        )

    def _too_many(self, path: str) -> TooManyRequestsError:
        kind = _RetriedTooManyRequestsError if path in _COLLECTOR_PATHS else TooManyRequestsError
        return kind(
            f"the bodies of concurrent requests are larger than {self._max_of_token} bytes",
            hint="Send fewer or smaller bodies at a time, or raise MISTBOW_MAX_BODY_BYTES.",
        )

    def _too_slow(self, path: str) -> SlowRequestError:
        kind = _RetriedSlowRequestError if path in _COLLECTOR_PATHS else SlowRequestError
        return kind(
            f"the body was not received within {self._seconds:g} s",
            hint="Send less in one request, or raise MISTBOW_BODY_SECONDS.",
        )


def _unknown() -> bool:
    return False


@dataclass(slots=True)
class _Body:
    """The body of a running request; ``size``: the received bytes."""

    token: str
    size: int = 0


def count_body(scope: Scope, length: int) -> None:
    """Count the bytes of a decompressed body towards the limit of the request's token.

    They count until the request ends. Raises ``TooManyRequestsError`` beyond the limit.
    """
    scope[_COUNT_BODY](length)


def _compressed(encoding: bytes) -> UnsupportedError:
    return UnsupportedError(
        f"Content-Encoding: this path takes no body in {encoding[:40].decode('latin-1')!r}",
        hint="Send the body without compression.",
    )


@dataclass(frozen=True, slots=True)
class _Limit:
    """The limit on the concurrent requests of one kind, for each token separately.

    ``setting``: the name of the setting that contains the limit. ``running``: token name -> number
    of running requests; a token without running requests has no entry.
    """

    maximum: int
    kind: str
    setting: str
    running: Counter[str] = field(default_factory=Counter)

    def acquire(self, token: str) -> bool:
        """Count a new request of a token and return True; return False if the token is at the
        limit.
        """
        if self.running[token] >= self.maximum:
            return False
        self.running[token] += 1
        return True

    def release(self, token: str) -> None:
        """Stop counting a request that ``acquire`` has counted."""
        self.running[token] -= 1
        if not self.running[token]:
            del self.running[token]

    def refusal(self, token: str, path: str) -> TooManyRequestsError:
        owner = f" of the token {token}" if token else ""
        kind = _RetriedTooManyRequestsError if path in _COLLECTOR_PATHS else TooManyRequestsError
        return kind(
            f"the maximum of {self.maximum} concurrent {self.kind}{owner} is reached",
            hint=f"Try again in a moment, or raise {self.setting}.",
        )


class RequestLimit:
    """Middleware that limits the number of concurrent requests of each token.

    A request beyond the limit is answered with status 429, or 503 for collectors. The limit is per
    token, so that slow readers with one token do not affect other callers. Requests that wait for
    rows or follow a stream last long and cost little, and have a separate limit. ``current_token``
    returns the name of the current request's token; the empty text stands for the fog's own token
    and for requests without a token.
    """

    def __init__(
        self,
        app: ASGIApp,
        max_requests: int,
        max_followers: int,
        current_token: Callable[[], str],
    ) -> None:
        self._app = app
        self._current_token = current_token
        self._requests = _Limit(max_requests, "requests", "MISTBOW_MAX_REQUESTS")
        self._followers = _Limit(max_followers, "subscriptions", "MISTBOW_MAX_FOLLOWERS")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"].startswith(_UNLIMITED_PATHS):
            await self._app(scope, receive, send)
            return
        limit = self._followers if _follows(scope) else self._requests
        token = self._current_token()
        if not limit.acquire(token):
            await _answer(limit.refusal(token, scope["path"]), scope, receive, send)
            return
        try:
            await self._app(scope, receive, send)
        finally:
            limit.release(token)


def _follows(scope: Scope) -> bool:
    """Return whether a request waits for later rows of a stream or for later results."""
    if scope["method"] != "GET":
        return False
    if scope["path"].endswith(("/follow", "/events")):
        return True
    query: bytes = scope["query_string"]
    if not scope["path"].startswith("/streams/") or not query:
        return False
    params = parse_qs(query.decode("latin-1"))
    return is_true(params.get("follow", [""])[-1]) or "wait_ms" in params


def is_true(value: str) -> bool:
    """Return whether a query parameter's value means true."""
    return value.lower() in _TRUE_VALUES


async def _answer(error: MistbowError, scope: Scope, receive: Receive, send: Send) -> None:
    answer = JSONResponse(error.body(), status_code=error.status, headers=error_headers(error))
    await answer(scope, receive, send)


def error_headers(error: MistbowError) -> dict[str, str]:
    """Return the headers of an error's answer: when to retry, and whether the connection closes.

    The connection closes if the request's body was not read completely, so that clients need not
    send the rest of the body.
    """
    headers = {"Retry-After": "1"} if error.status in (429, 503) else {}
    return headers | ({"Connection": "close"} if isinstance(error, _UNREAD_BODY) else {})
