"""Limits on bodies (their size and the time that they take) and on requests at once."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import parse_qs

from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mistbow.errors import MistbowError, SlowRequestError, TooLargeError, TooManyRequestsError

# Whoever watches, greets or says that it lives must be heard above all when there is much to do.
_ALWAYS = ("/healthz", "/readyz", "/metrics", "/fabric/greet", "/workers/")
_YES = ("true", "t", "1", "yes", "y", "on")


class BodyLimit:
    """Ends the reading of a body that is over the limit or late, before it fills the memory.

    The errors are raised where the body is read, and answered as any other is.
    """

    def __init__(self, app: ASGIApp, max_bytes: int, seconds: float) -> None:
        self._app = app
        self._max = max_bytes
        self._seconds = seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        declared = dict(scope["headers"]).get(b"content-length", b"0")
        if declared.isdigit() and int(declared) > self._max:
            await _answer(self._too_large(), scope, receive, send)
            return
        await self._app(scope, self._watched(receive), send)

    def _watched(self, receive: Receive) -> Receive:
        deadline = asyncio.get_running_loop().time() + self._seconds
        seen, complete = 0, False

        async def watched() -> Message:
            nonlocal seen, complete
            if complete:
                # What comes now is that the client leaves, whenever that may be.
                return await receive()
            try:
                async with asyncio.timeout_at(deadline):
                    message = await receive()
            except TimeoutError:
                raise self._too_slow() from None
            complete = not message.get("more_body", False)
            seen += len(message.get("body", b""))
            if seen > self._max:
                raise self._too_large()
            return message

        return watched

    def _too_large(self) -> TooLargeError:
        return TooLargeError(
            f"the body is over {self._max} bytes",
            hint="Send less at once, or raise MISTBOW_MAX_BODY_BYTES.",
        )

    def _too_slow(self) -> SlowRequestError:
        return SlowRequestError(
            f"the body did not come within {self._seconds:g} s",
            hint="Send less at once, or raise MISTBOW_BODY_SECONDS.",
        )


class RequestLimit:
    """Answers 429 to more requests at once than the limit.

    Those that wait or follow, which may last for ever and cost little, have a limit of their own.
    """

    def __init__(self, app: ASGIApp, max_requests: int, max_followers: int) -> None:
        self._app = app
        self._requests = _Places(max_requests, "requests", "MISTBOW_MAX_REQUESTS")
        self._followers = _Places(max_followers, "followers", "MISTBOW_MAX_FOLLOWERS")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"].startswith(_ALWAYS):
            await self._app(scope, receive, send)
            return
        places = self._followers if _follows(scope) else self._requests
        if places.are_full:
            await _answer(places.refusal(), scope, receive, send)
            return
        with places.one():
            await self._app(scope, receive, send)


class _Places:
    def __init__(self, most: int, what: str, setting: str) -> None:
        self._most = most
        self._what = what
        self._setting = setting
        self._taken = 0

    @property
    def are_full(self) -> bool:
        return self._taken >= self._most

    @contextmanager
    def one(self) -> Iterator[None]:
        self._taken += 1
        try:
            yield
        finally:
            self._taken -= 1

    def refusal(self) -> TooManyRequestsError:
        return TooManyRequestsError(
            f"there are {self._most} {self._what} already",
            hint=f"Try again in a moment, or raise {self._setting}.",
        )


def _follows(scope: Scope) -> bool:
    """Tell whether a request is one that waits for what is yet to come: of a stream, or results."""
    if scope["method"] != "GET":
        return False
    if scope["path"].endswith(("/follow", "/events")):
        return True
    query: bytes = scope["query_string"]
    if not scope["path"].startswith("/streams/") or not query:
        return False
    asked = parse_qs(query.decode("latin-1"))
    return says_yes(asked.get("follow", [""])[-1]) or "wait_ms" in asked


def says_yes(value: str) -> bool:
    """Tell whether a value in a query is one that routes take for true."""
    return value.lower() in _YES


async def _answer(error: MistbowError, scope: Scope, receive: Receive, send: Send) -> None:
    answer = JSONResponse(error.body(), status_code=error.status, headers=headers_of(error))
    await answer(scope, receive, send)


def headers_of(error: MistbowError) -> dict[str, str]:
    """Return the headers of an error: when to try again, and that the connection ends.

    It ends where the body was not read: the rest of it would be waited for.
    """
    headers = {"Retry-After": "1"} if error.status in (429, 503) else {}
    return headers | ({"Connection": "close"} if error.status in (408, 413, 429) else {})
