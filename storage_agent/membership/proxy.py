"""The proxy: forwards requests for other sites to the agents there, and streams the bodies."""

import re
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request, Response
from fastapi.responses import StreamingResponse
from fastapi.routing import APIRoute
from sse_starlette import EventSourceResponse
from starlette.types import Message

from mistbow.auth.callers import current_caller, on_behalf_of
from mistbow.auth.rules import authorize
from mistbow.client.answer_time import MAX_ANSWER_S
from mistbow.errors import MistbowError, UnavailableError
from mistbow.http.limits import is_true
from mistbow.http.parameters import reject_repeated_parameters
from mistbow.telemetry import get_logger
from storage_agent.http.abandonment import answer_while_connected, is_only_reading
from storage_agent.membership.network import (
    VIA,
    PeerNetwork,
    PeerRequest,
    PeerResponse,
    count_body,
    count_bytes,
    parse_via,
    sender_label,
    traffic_kind,
)
from storage_agent.membership.peers import Peers

log = get_logger(__name__)

REQUESTING_SITE: ContextVar[str | None] = ContextVar("requesting_site", default=None)
"""The site whose agent sent the present request; None if a client sent it to this agent."""


@dataclass(frozen=True, slots=True)
class UnreachableSite:
    """The site that a request names, and the reason why the agent of the site does not answer."""

    site: str
    reason: str


UNREACHABLE: ContextVar[UnreachableSite | None] = ContextVar("unreachable", default=None)
"""Set while this agent answers a client's request in place of an unreachable site."""

Handler = Callable[[Request], Awaitable[Response]]

_REQUEST_HEADERS = ("accept", "content-type", "idempotency-key", "last-event-id")
_RESPONSE_HEADERS = ("content-type", "content-length", "retry-after")
_FOLLOW_S = 3.0
_READ_S = 27.0
_SLOW_PATHS = (
    *("/get", "/query", "/query/parts", "/app/get", "/app/query", "/analytics/get"),
    *("/replication/get", "/replication/points", "/sql"),
)
_SLOW_PREFIXES = ("/api/v1/", "/backups")
_REPAIR = re.compile("/streams/.+/repair")
"""The path of a repair, which reads a whole stream of another site."""

_UNAVAILABLE_STATUS = (429, 503)
_MAX_WAIT_S = 60.0


class Proxy:
    """Forwards requests for other sites, and counts the bytes of requests from other agents."""

    def __init__(self, network: PeerNetwork, peers: Peers) -> None:
        self._network = network
        self._peers = peers

    async def handle(
        self, request: Request, local: Handler, *, fails_over: bool = False
    ) -> Response:
        """Answer a request by ``local``, or forward it to the site in the parameter ``site``.

        ``fails_over``: whether ``local`` answers the request of a client if that site is
        unreachable or overloaded. ``UNREACHABLE`` is then set to the site.
        """
        await reject_repeated_parameters(request)
        site = request.query_params.get("site")
        via = parse_via(request.headers.get(VIA))
        if site and site != self._network.own:
            # The other agent sees the rights of this agent, so the caller's own are checked here.
            with on_behalf_of(current_caller().at(site)):
                return await self._forward_for_caller(request, local, site, via, fails_over)
        return await self._serve(request, local, via) if via else await local(request)

    async def _forward_for_caller(
        self,
        request: Request,
        local: Handler,
        site: str,
        via: tuple[str, ...],
        fails_over: bool,
    ) -> Response:
        await authorize(request)
        kind = traffic_kind(_target(request))
        if not fails_over or via:
            return await self._forward(request, site, via, kind)
        try:
            return await self._forward(request, site, via, kind, check=True)
        except UnavailableError as error:
            UNREACHABLE.set(UnreachableSite(site, error.message))
            return await local(request)

    async def _forward(
        self, request: Request, site: str, via: tuple[str, ...], kind: str, *, check: bool = False
    ) -> Response:
        body = b"" if request.method == "GET" else await request.body()
        if via:
            count_bytes(sender_label(via, self._peers), "received", kind, len(body))
        follows = _follows(request)
        call = PeerRequest(
            site,
            request.method,
            _target(request),
            headers=_select(request.headers, _REQUEST_HEADERS),
            content=body,
            via=via,
            wait_s=_FOLLOW_S if follows else _wait_s(request),
        )
        answer = await self._network.send(call)
        if check:
            await _check_available(answer, site)
        parts = _end_at_interruption(answer, site) if follows else answer.body
        if via:
            parts = count_body(parts, sender_label(via, self._peers), "sent", kind)
        return StreamingResponse(
            parts,
            status_code=answer.response.status_code,
            headers=_select(answer.response.headers, _RESPONSE_HEADERS),
        )

    async def _serve(self, request: Request, local: Handler, via: tuple[str, ...]) -> Response:
        site, kind = sender_label(via, self._peers), traffic_kind(_target(request))

        async def receive() -> Message:
            message = await request.receive()
            count_bytes(site, "received", kind, len(message.get("body", b"")))
            return message

        REQUESTING_SITE.set(via[0])
        response = await local(Request(request.scope, receive))
        if isinstance(response, StreamingResponse | EventSourceResponse):
            response.body_iterator = _count_parts(response.body_iterator, site, kind)
        else:
            count_bytes(site, "sent", kind, len(response.body))
        return response


def proxied_router(
    proxy: Proxy, tag: str, *, prefix: str = "", fails_over: bool = False
) -> APIRouter:
    """Return a router whose routes forward requests to the site in the parameter ``site``.

    ``fails_over``: whether the handler of the route answers a request for an unreachable site. The
    handler finds the site in ``UNREACHABLE``.
    """
    return APIRouter(
        prefix=prefix,
        tags=[tag],
        route_class=_proxied_route(proxy, fails_over),
        dependencies=[Depends(_site_parameter)],
    )


def _proxied_route(proxy: Proxy, fails_over: bool) -> type[APIRoute]:
    """Return a route class that calls the proxy: FastAPI has no other way to wrap a handler."""

    class ProxiedRoute(APIRoute):
        def get_route_handler(self) -> Callable[[Request], Awaitable[Response]]:  # type: ignore[override]
            local = super().get_route_handler()

            async def handle(request: Request) -> Response:
                return await proxy.handle(request, local, fails_over=fails_over)

            async def handle_while_connected(request: Request) -> Response:
                return await answer_while_connected(request, handle)

            return handle_while_connected if is_only_reading(self.endpoint) else handle

    return ProxiedRoute


async def _site_parameter(
    site: Annotated[
        str | None, Query(description="the site whose agent answers; by default this site")
    ] = None,
) -> None:
    """Declare the parameter ``site`` of a route, so that the OpenAPI document has it."""


async def _check_available(answer: PeerResponse, site: str) -> None:
    """Raise ``UnavailableError`` if another agent's answer has the status 429 or 503."""
    if answer.response.status_code in _UNAVAILABLE_STATUS:
        try:
            await answer.read()
        except MistbowError as error:
            raise UnavailableError(f"the site {site} cannot answer now: {error.message}") from error


async def _end_at_interruption(answer: PeerResponse, site: str) -> AsyncIterator[bytes]:
    """Yield the parts of a followed stream; if its connection fails, end without an error."""
    try:
        async for part in answer.body:
            yield part
    except UnavailableError as error:
        log.info("proxied_stream_interrupted", site=site, error=error.message)


async def _count_parts(parts: AsyncIterable[Any], site: str, kind: str) -> AsyncIterator[Any]:
    async for part in parts:
        count_bytes(site, "sent", kind, len(part))
        yield part


def _target(request: Request) -> bytes:
    path: bytes = request.scope["raw_path"]
    query: bytes = request.scope["query_string"]
    return path + b"?" + query


def _select(headers: Mapping[str, str], names: tuple[str, ...]) -> dict[str, str]:
    return {name: headers[name] for name in names if name in headers}


def _follows(request: Request) -> bool:
    if request.url.path.endswith("/events"):
        return True
    return is_true(request.query_params.get("follow", ""))


def _wait_s(request: Request) -> float:
    if request.method == "POST" and _REPAIR.fullmatch(request.url.path):
        return MAX_ANSWER_S
    if request.url.path in _SLOW_PATHS or request.url.path.startswith(_SLOW_PREFIXES):
        return _READ_S
    try:
        wait_s = float(request.query_params.get("wait_ms", 0)) / 1000
    except ValueError:
        return 0.0  # the other agent rejects the request
    return min(max(wait_s, 0.0), _MAX_WAIT_S)
