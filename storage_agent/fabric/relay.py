"""Relaying a request for another site to its agent, streamed both ways."""

from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import Query, Request, Response
from fastapi.responses import StreamingResponse
from fastapi.routing import APIRoute
from sse_starlette import EventSourceResponse
from starlette.types import Message

from mistbow.auth.rules import authorize
from mistbow.errors import MistbowError, UnavailableError
from mistbow.http.limits import says_yes
from mistbow.telemetry import get_logger
from storage_agent.fabric.neighbours import Neighbours
from storage_agent.fabric.network import (
    VIA,
    Answer,
    Network,
    Outgoing,
    count,
    counted,
    kind_of,
    passed_by,
    site_of,
)

log = get_logger(__name__)

READER: ContextVar[str | None] = ContextVar("reader", default=None)
"""The site whose agent sent the request that is answered; None if it came from a client here."""


@dataclass(frozen=True, slots=True)
class Silent:
    """The site that a request is for, and why its agent does not answer, in words."""

    site: str
    reason: str


SILENT: ContextVar[Silent | None] = ContextVar("silent", default=None)
"""Set where this agent answers in place of the one that a client's request is for."""

Handler = Callable[[Request], Awaitable[Response]]

_PASSED_ON = ("content-type", "content-length", "idempotency-key", "last-event-id")
_PASSED_BACK = ("content-type", "content-length", "retry-after")
_FOLLOW_S = 3.0
_GET_S = 27.0
_LONG = (
    *("/get", "/query", "/query/parts", "/app/get", "/app/query", "/analytics/get"),
    *("/replication/get", "/replication/points", "/sql"),
)
_ALL_LONG = "/api/v1/"
_AWAY = (429, 503)
_MOST_WAIT_S = 60.0


class Relay:
    """Decides of each request whether it is for this site, and counts what crosses."""

    def __init__(self, network: Network, neighbours: Neighbours) -> None:
        self._network = network
        self._neighbours = neighbours

    async def handle(self, request: Request, here: Handler, *, stands_in: bool = False) -> Response:
        """Answer a request by ``here``, or as its site's agent does.

        With ``stands_in``, what a client asks of a site that is silent, or that says it cannot
        answer now, is answered by ``here`` too.
        """
        site = request.query_params.get("site")
        via = passed_by(request.headers.get(VIA))
        if site and site != self._network.own:
            # The other agent sees the fog's token: what the caller's opens is decided here.
            await authorize(request)
            kind = kind_of(_target(request))
            if not stands_in or via:
                return await self._forward(request, site, via, kind)
            await request.body()  # kept, so that it can be read once more
            try:
                return await self._forward(request, site, via, kind, check=True)
            except UnavailableError as error:
                SILENT.set(Silent(site, error.message))
                return await here(request)
        return await self._serve(request, here, via) if via else await here(request)

    async def _forward(
        self, request: Request, site: str, via: tuple[str, ...], kind: str, *, check: bool = False
    ) -> Response:
        body: AsyncIterator[bytes] | None = None if request.method == "GET" else request.stream()
        if via and body is not None:
            body = counted(body, site_of(via, self._neighbours), "received", kind)
        follows = _follows(request)
        call = Outgoing(
            site,
            request.method,
            _target(request),
            headers=_some(request.headers, _PASSED_ON),
            content=body,
            via=via,
            wait_s=_FOLLOW_S if follows else _wait_s(request),
        )
        answer = await self._network.send(call)
        if check:
            await _check(answer, site)
        parts = _until_broken(answer, site) if follows else answer.body
        if via:
            parts = counted(parts, site_of(via, self._neighbours), "sent", kind)
        return StreamingResponse(
            parts,
            status_code=answer.response.status_code,
            headers=_some(answer.response.headers, _PASSED_BACK),
        )

    async def _serve(self, request: Request, here: Handler, via: tuple[str, ...]) -> Response:
        site, kind = site_of(via, self._neighbours), kind_of(_target(request))

        async def receive() -> Message:
            message = await request.receive()
            count(site, "received", kind, len(message.get("body", b"")))
            return message

        READER.set(via[0])
        response = await here(Request(request.scope, receive))
        if isinstance(response, StreamingResponse | EventSourceResponse):
            response.body_iterator = _all_counted(response.body_iterator, site, kind)
        else:
            count(site, "sent", kind, len(response.body))
        return response


def relayed(relay: Relay, *, stands_in: bool = False) -> type[APIRoute]:
    """Return the class of routes that take ``site``; FastAPI has no other seam for that.

    With ``stands_in`` they look at ``SILENT``.
    """

    class Relayed(APIRoute):
        def get_route_handler(self) -> Callable[[Request], Awaitable[Response]]:  # type: ignore[override]
            here = super().get_route_handler()

            async def handle(request: Request) -> Response:
                return await relay.handle(request, here, stands_in=stands_in)

            return handle

    return Relayed


async def takes_site(
    site: Annotated[
        str | None, Query(description="the site whose agent is to answer; by default this one")
    ] = None,
) -> None:
    """Say in a route's description that it takes ``site``."""


async def _check(answer: Answer, site: str) -> None:
    """Raise ``UnavailableError`` for an answer of a site, or of one on the way, that has none."""
    if answer.response.status_code in _AWAY:
        try:
            await answer.read()
        except MistbowError as error:
            raise UnavailableError(f"the site {site} cannot answer now: {error.message}") from error


async def _until_broken(answer: Answer, site: str) -> AsyncIterator[bytes]:
    """Pass on a followed stream; where it breaks it just ends, for its reader to go on."""
    try:
        async for part in answer.body:
            yield part
    except UnavailableError as error:
        log.info("a relayed stream broke off", site=site, error=error.message)


async def _all_counted(parts: AsyncIterable[Any], site: str, kind: str) -> AsyncIterator[Any]:
    async for part in parts:
        count(site, "sent", kind, len(part))
        yield part


def _target(request: Request) -> bytes:
    path: bytes = request.scope["raw_path"]
    query: bytes = request.scope["query_string"]
    return path + b"?" + query


def _some(headers: Mapping[str, str], names: tuple[str, ...]) -> dict[str, str]:
    return {name: headers[name] for name in names if name in headers}


def _follows(request: Request) -> bool:
    if request.url.path.endswith("/events"):
        return True
    return says_yes(request.query_params.get("follow", ""))


def _wait_s(request: Request) -> float:
    if request.url.path in _LONG or request.url.path.startswith(_ALL_LONG):
        return _GET_S
    try:
        wait_s = float(request.query_params.get("wait_ms", 0)) / 1000
    except ValueError:
        return 0.0  # which the other agent refuses
    return min(max(wait_s, 0.0), _MOST_WAIT_S)
