"""Ends requests whose token, session or identity is revoked or expires before their end."""

import asyncio
import json
import time
from collections.abc import Callable

from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mistbow.asgi import CLOSE_CONNECTION, extension
from mistbow.errors import UnauthorizedError
from mistbow.telemetry import get_logger

log = get_logger(__name__)

_RECHECK_S = 1.0
"""The time between two checks of a request's caller."""

_WAITING_METHODS = ("GET", "HEAD")
_EVENTS = b"text/event-stream"


async def until_revoked(
    app: ASGIApp, scope: Scope, receive: Receive, send: Send, is_valid: Callable[[], bool]
) -> None:
    """Answer a request, but end it once ``is_valid`` returns False: its caller's rights have ended.

    A GET request, which may wait, ends within about a second. Any other request ends when it next
    sends a part of its answer, so that no change is interrupted. An answer that has not begun
    becomes the error 401. A stream of events ends with the event ``revoked``, whose data is the
    error. An answer with a ``Content-Length`` is sent to its end. Any other answer is cut: the
    connection closes before the end of the answer, so that readers detect the incomplete answer.
    Raises ``UnauthorizedError`` if the server has no ``CLOSE_CONNECTION``.
    """
    answer = _Answer(send, is_valid)
    if scope["method"] in _WAITING_METHODS:
        app = _ending_waits(app, answer, is_valid)
    is_revoked = False
    try:
        await app(scope, receive, answer.send)
    except* _RevokedError:
        is_revoked = True
    if is_revoked:
        log.info("request_revoked", method=scope["method"], path=scope["path"])
        await answer.end(scope, receive)


class _RevokedError(Exception):
    """The token, session or identity of a request was revoked or expired during the request."""


class _Answer:
    """The answer to a request; the caller is checked again at each part of an endless answer."""

    def __init__(self, send: Send, is_valid: Callable[[], bool]) -> None:
        self._send = send
        self._is_valid = is_valid
        self._checked_at = time.monotonic()
        self._is_started = False
        self._is_endless = True
        self._is_of_events = False

    @property
    def may_end(self) -> bool:
        """Whether the answer can end at any time."""
        return self._is_endless

    async def send(self, message: Message) -> None:
        """Send a message; raise ``_RevokedError`` if the caller has no rights any more."""
        if message["type"] == "http.response.start":
            headers = {name.lower(): value for name, value in message["headers"]}
            self._is_started = True
            self._is_endless = b"content-length" not in headers
            self._is_of_events = headers.get(b"content-type", b"").startswith(_EVENTS)
        elif self._is_endless and time.monotonic() - self._checked_at > _RECHECK_S:
            self._checked_at = time.monotonic()
            if not self._is_valid():
                raise _RevokedError
        await self._send(message)

    async def end(self, scope: Scope, receive: Receive) -> None:
        """End the answer with the reason; cut an answer whose form has no field for a reason."""
        error = UnauthorizedError(
            "the rights of this request have ended: its token, session or identity was revoked "
            "or has expired",
            hint="Send the request again with a valid token.",
        )
        if not self._is_started:
            headers = {"WWW-Authenticate": "Bearer", "Connection": "close"}
            answer = JSONResponse(error.body(), status_code=error.status, headers=headers)
            await answer(scope, receive, self._send)
            return
        if not self._is_of_events:
            await _cut(scope, receive, error)
            return
        event = f"event: revoked\ndata: {json.dumps(error.body())}\n\n".encode()
        await self._send({"type": "http.response.body", "body": event, "more_body": False})


async def _cut(scope: Scope, receive: Receive, error: UnauthorizedError) -> None:
    """Close the connection of a request, and wait until it is closed."""
    connection = extension(scope, CLOSE_CONNECTION)
    if connection is None:
        raise error
    connection["close"]()
    while (await receive())["type"] != "http.disconnect":
        pass


def _ending_waits(app: ASGIApp, answer: _Answer, is_valid: Callable[[], bool]) -> ASGIApp:
    """Return an application that raises ``_RevokedError`` soon after the rights have ended."""

    async def ending(scope: Scope, receive: Receive, send: Send) -> None:
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(None) as rights:
                timer: asyncio.TimerHandle

                def check() -> None:
                    nonlocal timer
                    if answer.may_end and not is_valid():
                        rights.reschedule(loop.time())
                    else:
                        timer = loop.call_later(_RECHECK_S, check)

                timer = loop.call_later(_RECHECK_S, check)
                try:
                    await app(scope, receive, send)
                finally:
                    timer.cancel()
        except TimeoutError:
            if not rights.expired():
                raise
            raise _RevokedError from None

    return ending
