"""Replication over HTTP: what is copied where, asking for copies, and feeding them."""

from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Depends, Query, Request, Response
from fastapi.responses import StreamingResponse
from msgspec import Meta

from mistbow.auth.rules import requires
from mistbow.errors import UnavailableError
from mistbow.streams.schemas import RAW
from mistbow.streams.wire import MEDIA_TYPE
from storage_agent.agent import Agent
from storage_agent.fabric.relay import relayed, takes_site
from storage_agent.monitoring.api import takes
from storage_agent.monitoring.bodies import read_body
from storage_agent.replication.filters import SeriesFilter
from storage_agent.replication.moved import MovedAsk
from storage_agent.replication.offering import Want
from storage_agent.replication.replication import Replication
from storage_agent.replication.restrictions import read_rules
from storage_agent.replication.standing_in import ReplicaGet
from storage_agent.replication.told import Copy, Kept, Rule, kept_by
from storage_agent.replication.view import SiteView
from storage_agent.streams.arrow_bodies import encoded

_MOST = 2**63 - 1


class WantBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A copy that is asked for; without a filter, of the whole stream.

    ``move``: what is there is forgotten here, once it is old enough.
    """

    target: Annotated[str, Meta(min_length=1, max_length=40)]
    stream: Annotated[str, Meta(min_length=1, max_length=100)] = RAW
    filter: SeriesFilter = SeriesFilter()
    move: bool = False


_WANT = msgspec.json.Decoder(WantBody)
_MOVED_ASK = msgspec.json.Decoder(MovedAsk)
_REPLICA_GET = msgspec.json.Decoder(ReplicaGet)
_EXAMPLE = {"target": "cloud", "filter": {"metric": ["delay"], "labels": {"region": ["north"]}}}
_EXAMPLE_RULES = [{"match": {"group": ["patients"]}, "stay_in": ["north"]}]


def replication_routes(agent: Agent) -> APIRouter:
    """Return the routes of an agent's replication."""
    routes = APIRouter(
        prefix="/replication",
        tags=["replication"],
        route_class=relayed(agent.relay),
        dependencies=[Depends(takes_site)],
    )
    _add_state_routes(routes, agent)
    _add_rule_routes(routes, agent)
    _add_agents_routes(routes, agent)
    return routes


def _add_state_routes(routes: APIRouter, agent: Agent) -> None:
    @routes.get("", summary="What is copied where, and why")
    @requires("read")
    async def state() -> Response:
        """`copies` of this site's streams, `replicas` held here, and what the policy goes by."""
        return _json(_state(agent.replication))

    @routes.put("", summary="Ask for a copy", openapi_extra=takes(WantBody, _EXAMPLE))
    @requires("admin")
    async def ask(request: Request) -> Response:
        """Have another site hold a copy of a stream of this one, until that is withdrawn.

        With `move`, points that it has for sure go from here when they are older than
        `MISTBOW_MOVE_AFTER_S`; reads of this node get them from there.
        """
        want = read_body(_WANT, await request.body())
        offers = _open(agent).offers
        asked = Want(want.target.lower(), want.stream, want.filter, move=want.move)
        copy = await offers.ask(asked)
        await agent.member.settled()
        return _json(copy)

    @routes.delete("/copies/{copy_id}", status_code=204, summary="Withdraw a copy")
    @requires("admin")
    async def withdraw(
        copy_id: str,
        target: Annotated[str | None, Query(description="only at this site")] = None,
        force: Annotated[
            bool,
            Query(
                description="even if it is a fragile site's only one, or points have moved to it"
            ),
        ] = False,
    ) -> None:
        """What the policy decided comes back as long as it has reason to."""
        await _open(agent).offers.withdraw(copy_id, target, force=force)
        await agent.member.settled()

    @routes.delete("/replicas/{of}/{copy_id}", status_code=204, summary="Delete a replica")
    @requires("admin")
    async def delete(
        of: str,
        copy_id: str,
        force: Annotated[bool, Query(description="even if it is all that is left")] = False,
    ) -> None:
        """Delete what is held here of a site that is gone, or that lost its store.

        If that site comes back and still wants the copy, it is made anew of what the site has.
        """
        await _open(agent).puller.delete(of.lower(), copy_id, force=force)
        await agent.member.settled()


def _add_rule_routes(routes: APIRouter, agent: Agent) -> None:
    @routes.get("/restrictions", summary="What may not be copied where")
    @requires("read")
    async def restrictions() -> Response:
        """`fixed` are those of the settings, `declared` those that were put here."""
        told = agent.replication.restrictions
        return _json({"fixed": told.fixed, "declared": told.declared})

    @routes.put(
        "/restrictions",
        summary="Declare what may not be copied where",
        openapi_extra=takes(tuple[Rule, ...], _EXAMPLE_RULES),  # type: ignore[arg-type]
    )
    @requires("admin")
    async def declare(request: Request) -> Response:
        """Replace what was declared; copies that hold what they may not are made anew."""
        rules = read_rules(await request.body())
        replication = _open(agent)
        replication.offers.check_rules(rules)
        replication.restrictions.declare(rules)
        replication.offers.review()
        await agent.member.settled()
        return _json({"fixed": replication.restrictions.fixed, "declared": rules})


def _add_agents_routes(routes: APIRouter, agent: Agent) -> None:
    @routes.get("/feed", summary="For other agents", response_class=StreamingResponse)
    @requires("admin")
    async def feed(
        target: str,
        copy_id: Annotated[str, Query(alias="id")],
        start: Annotated[int, Query(alias="from", ge=0, le=_MOST)],
        deleted: Annotated[int | None, Query(ge=0, le=_MOST)] = None,
    ) -> StreamingResponse:
        """What a site is to hold, from a number on, followed: restrictions are kept here.

        `deleted` is the last deletion that the replica has heard of.
        """
        offers = _open(agent).offers
        schema, chunks = await offers.feed(target, copy_id, start, deleted)
        first = await anext(chunks)
        return StreamingResponse(encoded(schema, first, chunks), media_type=MEDIA_TYPE)

    @routes.get("/held", summary="For other agents")
    @requires("admin")
    async def held(of: str, copy_id: Annotated[str, Query(alias="id")]) -> Response:
        """What a replica that is held here has for sure, so that its source may forget it."""
        return _json(_open(agent).moved_here.held(of, copy_id))

    @routes.post(
        "/points",
        summary="For other agents",
        openapi_extra=takes(MovedAsk),
        response_class=StreamingResponse,
    )
    @requires("read", by_entity=True)
    async def points(request: Request) -> StreamingResponse:
        """Points that have moved here, as Arrow, for the agent of the site that they are of."""
        asked = read_body(_MOVED_ASK, await request.body())
        schema, first, chunks = await _open(agent).moved_here.points(asked)
        return StreamingResponse(encoded(schema, first, chunks), media_type=MEDIA_TYPE)

    @routes.post("/get", summary="For other agents", openapi_extra=takes(ReplicaGet))
    @requires("read", by_entity=True)
    async def get(request: Request) -> Response:
        """What a replica that is held here has of the series that are asked for."""
        asked = read_body(_REPLICA_GET, await request.body())
        return Response(await _open(agent).stand_ins.read(asked), media_type="application/json")


class _Replica(msgspec.Struct, frozen=True):
    """A replica as it is listed."""

    of: str
    id: str
    stream: str
    kept_in: str
    filter: SeriesFilter
    withheld: tuple[SeriesFilter, ...]
    state: str
    complete: bool
    position: int
    rows: int
    stale_ms: int


class _State(msgspec.Struct, frozen=True):
    """What is copied where, as far as this site knows."""

    site: str
    stability: float
    copies: tuple[Copy, ...]
    replicas: tuple[_Replica, ...]
    elsewhere: dict[str, tuple[Kept, ...]]
    sites: tuple[dict[str, Any], ...]
    reads: tuple[dict[str, Any], ...]


def _state(replication: Replication) -> _State:
    member = replication.member
    view = replication.decider.view(0)
    return _State(
        site=member.site,
        stability=round(view.here.stability, 3),
        copies=replication.offers.all(),
        replicas=tuple(
            _Replica(
                of=each.of,
                id=each.copy.id,
                stream=each.copy.stream,
                kept_in=each.name,
                filter=each.copy.filter,
                withheld=each.copy.withheld,
                state=each.state,
                complete=each.complete,
                position=each.position,
                rows=each.rows,
                stale_ms=each.stale_ms,
            )
            for each in replication.puller.held()
        ),
        elsewhere={
            site.name: kept for site in view.others if (kept := kept_by(member.told_by(site.name)))
        },
        sites=tuple(_seen(site) for site in view.others),
        reads=tuple(
            {"by": read.by, "filter": read.filter, "per_minute": round(read.per_minute, 1)}
            for read in view.reads
        ),
    )


def _seen(site: SiteView) -> dict[str, Any]:
    return {
        "site": site.name,
        "reachable": site.reachable,
        "stability": round(site.stability, 3),
        "latency_ms": site.latency_ms,
        "usual_ms": site.usual_ms,
        "losses": round(site.losses, 3),
        "room": site.room,
        "load": site.load,
    }


def _open(agent: Agent) -> Replication:
    if not agent.replication.is_open:
        raise UnavailableError("the agent is starting", hint="/readyz says what it waits for.")
    return agent.replication


def _json(body: Any) -> Response:
    return Response(msgspec.json.encode(body), media_type="application/json")
