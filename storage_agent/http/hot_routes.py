"""POST endpoints that bypass FastAPI, which would take longer than storing a point.

An endpoint is declared once. Plain requests, from clients and without a query string, are answered
here, behind the same authentication and limits as all other requests. FastAPI answers requests with
a query string (``?site=``) and requests from another agent, and documents the endpoint.
"""

import inspect
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from fastapi import APIRouter, Depends, Request, Response
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Receive, Scope, Send

from mistbow.asgi import WHOLE_ANSWER, extension
from mistbow.auth import callers
from mistbow.auth.rules import AccessRule, check, requires
from mistbow.errors import MistbowError, unavailable_by
from mistbow.http.limits import error_headers
from mistbow.http.parameters import only_parameters
from mistbow.openapi import raises
from mistbow.os_faults import fault_of
from storage_agent.http import abandonment
from storage_agent.http.openapi import Operation
from storage_agent.http.responses import Answer, json_response

Headers = Mapping[bytes, bytes]
"""The headers of a request, their names in lower case."""

Handler = Callable[[bytes, Headers], Awaitable[tuple[int, Answer]]]
"""Takes a body and headers; returns (status, answer), or raises ``MistbowError``."""

_JSON = (b"content-type", b"application/json")
_JSON_LINES = b"content-type: application/json\r\ncontent-length: %d\r\n"


@dataclass(frozen=True, slots=True)
class _HotRoute:
    rule: AccessRule
    handler: Handler
    only_reads: bool


class HotRoutes:
    """The hot endpoints of an application, found by their paths.

    Requests with the header ``proxy_header`` (lower case) come from another agent; FastAPI answers
    these requests.
    """

    def __init__(self, proxy_header: bytes) -> None:
        self._proxy_header = proxy_header
        self._by_path: dict[str, _HotRoute] = {}

    def post(
        self,
        router: APIRouter,
        path: str,
        *,
        scope: callers.Scope,
        summary: str,
        operation: Operation,
        by_entity: bool = False,
        errors: Sequence[type[MistbowError]] = (),
        only_reads: bool = False,
    ) -> Callable[[Handler], Handler]:
        """Return a decorator that adds a handler for POST requests to ``path``.

        The handler is added to the hot routes and to ``router``. ``scope``, ``by_entity``: the
        access rule of the endpoint. ``summary``, ``operation``, ``errors``: the parts of the
        endpoint's OpenAPI description. ``only_reads``: whether the handler is cancelled when its
        client disconnects; endpoints that write refuse unknown parameters.
        """

        def declare(handler: Handler) -> Handler:
            @requires(scope, by_entity=by_entity)
            @raises(*errors)
            async def endpoint(request: Request) -> Response:
                body = await request.body()
                status, content = await handler(body, _by_name(request.scope["headers"]))
                return json_response(content, status)

            if only_reads:
                abandonment.only_reads(endpoint)
            router.add_api_route(
                path,
                endpoint,
                methods=["POST"],
                name=handler.__name__,
                summary=summary,
                description=inspect.getdoc(handler),
                openapi_extra=operation,
                dependencies=[] if only_reads else [Depends(only_parameters("site"))],
            )
            self._by_path[path] = _HotRoute(AccessRule(scope, by_entity), handler, only_reads)
            return handler

        return declare

    def wrap(self, app: ASGIApp) -> ASGIApp:
        """Return an application that answers the plain requests to hot endpoints.

        All other requests are passed to ``app``.
        """
        by_path, proxy_header = self._by_path, self._proxy_header

        async def answer(scope: Scope, receive: Receive, send: Send) -> None:
            route = by_path.get(scope.get("path", ""))
            if route is None or scope["method"] != "POST" or scope["query_string"]:
                await app(scope, receive, send)
                return
            headers = _by_name(scope["headers"])
            if proxy_header in headers:
                await app(scope, receive, send)
                return
            more: dict[str, str] = {}
            content: Answer
            try:
                check(route.rule, callers.current_caller(), f"{scope['method']} {scope['path']}")
                body = await _read(receive)
                if route.only_reads:
                    async with abandonment.cancelled_at_disconnect(receive):
                        status, content = await route.handler(body, headers)
                else:
                    status, content = await route.handler(body, headers)
            except (MistbowError, OSError) as raised:
                error = _to_error(raised)
                # Escaped to ASCII: the text that an error quotes may be invalid Unicode.
                status, content = error.status, json.dumps(error.body()).encode()
                more = error_headers(error)
            except ClientDisconnect:
                return
            if isinstance(content, bytes):
                if more or not _send_whole(scope, status, content):
                    await _send(send, status, content, more)
            else:
                await json_response(content, status)(scope, receive, send)

        return answer


def _by_name(pairs: Sequence[tuple[bytes, bytes]]) -> Headers:
    """Return headers by name: the last value of each name, but all values of ``Accept``.

    >>> _by_name([(b"accept", b"text/html"), (b"accept", b"*/*"), (b"x", b"1"), (b"x", b"2")])
    {b'accept': b'text/html, */*', b'x': b'2'}
    """
    headers = dict(pairs)
    if len(headers) < len(pairs) and b"accept" in headers:
        headers[b"accept"] = b", ".join(value for name, value in pairs if name == b"accept")
    return headers


def _to_error(raised: MistbowError | OSError) -> MistbowError:
    if isinstance(raised, MistbowError):
        return raised
    if (fault := fault_of(raised)) is None:
        raise raised
    return unavailable_by(fault)


async def _read(receive: Receive) -> bytes:
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


def _send_whole(scope: Scope, status: int, content: bytes) -> bool:
    """Send a successful answer at once, if the protocol can; return whether it was sent."""
    if status != HTTPStatus.OK:
        # Middleware may convert errors.
        return False
    whole = extension(scope, WHOLE_ANSWER)
    return whole is not None and whole["send"](status, _JSON_LINES % len(content), content)


async def _send(send: Send, status: int, content: bytes, more: Mapping[str, str]) -> None:
    headers: list[tuple[bytes, bytes]] = [_JSON, (b"content-length", b"%d" % len(content))]
    headers += [(name.lower().encode(), value.encode()) for name, value in more.items()]
    start: dict[str, Any] = {"type": "http.response.start", "status": status, "headers": headers}
    await send(start)
    await send({"type": "http.response.body", "body": content})
