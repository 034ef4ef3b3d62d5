"""A short way to routes that are asked thousands of times a second.

FastAPI's own way takes several times as long as storing a point. A shortcut goes by the same gate
and the same limits, and does what its route does; requests that are out of the ordinary (with a
query, or passed on by another service) take the long way to that route.
"""

import json
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from starlette.requests import ClientDisconnect
from starlette.responses import StreamingResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from mistbow.auth.callers import current_caller
from mistbow.auth.rules import Rule, check
from mistbow.errors import MistbowError
from mistbow.http.limits import headers_of

Headers = Mapping[bytes, bytes]
Content = bytes | Iterator[bytes]
"""JSON: whole, or where it is long piece by piece."""

Handler = Callable[[bytes, Headers], Awaitable[tuple[int, Content]]]
"""Takes a body and headers (in lower case), returns a status and JSON; raises ``MistbowError``."""

_JSON = (b"content-type", b"application/json")


@dataclass(frozen=True, slots=True)
class Shortcut:
    """What answers a POST, and what that requires of its caller."""

    rule: Rule
    handler: Handler


class Shortcuts:
    """Answers POSTs to some paths itself, and lets the application answer all others."""

    def __init__(self, app: ASGIApp, by_path: Mapping[str, Shortcut], but_with: bytes) -> None:
        self._app = app
        self._by_path = by_path
        self._but_with = but_with

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        shortcut = self._by_path.get(scope.get("path", ""))
        if shortcut is None or scope["method"] != "POST" or scope["query_string"]:
            await self._app(scope, receive, send)
            return
        headers = dict(scope["headers"])
        if self._but_with in headers:
            await self._app(scope, receive, send)
            return
        more: dict[str, str] = {}
        content: Content
        try:
            check(shortcut.rule, current_caller())
            status, content = await shortcut.handler(await _body(receive), headers)
        except MistbowError as error:
            # All in ASCII: what an error quotes may be no valid text.
            status, content = error.status, json.dumps(error.body()).encode()
            more = headers_of(error)
        if isinstance(content, bytes):
            await _send(send, status, content, more)
        else:
            answer = StreamingResponse(content, status, media_type="application/json")
            await answer(scope, receive, send)


def key_of(headers: Headers) -> str | None:
    """Return the idempotency key of a request."""
    key = headers.get(b"idempotency-key")
    return None if key is None else key.decode("latin-1")


async def _body(receive: Receive) -> bytes:
    message = await receive()
    if message["type"] == "http.disconnect":
        raise ClientDisconnect
    body: bytes = message.get("body", b"")
    if not message.get("more_body", False):
        return body
    parts = [body]
    while message.get("more_body", False):
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        parts.append(message.get("body", b""))
    return b"".join(parts)


async def _send(send: Send, status: int, content: bytes, more: Mapping[str, str]) -> None:
    headers: list[tuple[bytes, bytes]] = [_JSON, (b"content-length", b"%d" % len(content))]
    headers += [(name.lower().encode(), value.encode()) for name, value in more.items()]
    start: dict[str, Any] = {"type": "http.response.start", "status": status, "headers": headers}
    await send(start)
    await send({"type": "http.response.body", "body": content})
