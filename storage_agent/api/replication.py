"""HTTP routes of replication: copies, replicas, restrictions, and requests between agents."""

from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Depends, Query, Request, Response
from fastapi.responses import StreamingResponse
from msgspec import Meta

from mistbow.auth.callers import current_caller
from mistbow.auth.rules import requires
from mistbow.client.operation_model import (
    PeerState,
    ReplicaState,
    ReplicationState,
    Restriction,
    Restrictions,
    SeriesFilter,
)
from mistbow.errors import ConflictError, NotFoundError, UnavailableError
from mistbow.http.parameters import only_parameters
from mistbow.openapi import raises
from mistbow.streams.schemas import RAW
from mistbow.streams.wire import MEDIA_TYPE
from storage_agent.agent.agent import Agent
from storage_agent.http.abandonment import only_reads
from storage_agent.http.decode import decode_body, decode_renamed
from storage_agent.http.openapi import json_body
from storage_agent.http.streams import encode_chunks
from storage_agent.membership.proxy import proxied_router
from storage_agent.replication.facts import replica_facts
from storage_agent.replication.failover.replica_answers import ReplicaGetRequest
from storage_agent.replication.follower.replica_server import ReplicaPointsRequest
from storage_agent.replication.policy.view import SiteView
from storage_agent.replication.replication import Replication
from storage_agent.replication.restrictions import parse_restrictions
from storage_agent.replication.source.requests import CopyRequest

_MAX_NUMBER = 2**63 - 1


class CopyBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename={"offload": "move"}):
    """The body of a request for a copy; without a filter, the copy has all rows of the stream.

    ``offload`` (in JSON: ``move``): whether old points are deleted at this site once the target has
    stored them.
    """

    target: Annotated[str, Meta(min_length=1, max_length=40)]
    stream: Annotated[str, Meta(min_length=1, max_length=100)] = RAW
    filter: SeriesFilter = SeriesFilter()
    offload: bool = False


_COPY = msgspec.json.Decoder(CopyBody)
_REPLICA_POINTS = msgspec.json.Decoder(ReplicaPointsRequest)
_REPLICA_GET = msgspec.json.Decoder(ReplicaGetRequest)
_EXAMPLE = {"target": "cloud", "filter": {"metric": ["delay"], "labels": {"region": ["north"]}}}
_EXAMPLE_SERIES = [["delay", "bus-7"]]
_EXAMPLE_POINTS = {
    **{"of": "a", "id": "1f", "kept": "2e", "store": "3d", "series": _EXAMPLE_SERIES},
    **{"start": 0, "end": 1795262400000, "columns": ["ts", "value"], "reached": 9, "deleted": 0},
}
_EXAMPLE_GET = {"of": "a", "id": "1f", "series": _EXAMPLE_SERIES, "body": {"latest": True}}
_EXAMPLE_RESTRICTIONS = [{"match": {"group": ["patients"]}, "stay_in": ["north"]}]


def replication_routes(agent: Agent) -> APIRouter:
    """Return the routes that control replication, and the routes for the agents of other sites."""
    routes = proxied_router(agent.proxy, "replication", prefix="/replication")
    _add_copy_routes(routes, agent)
    _add_restriction_routes(routes, agent)
    _add_agent_routes(routes, agent)
    return routes


def _add_copy_routes(routes: APIRouter, agent: Agent) -> None:
    @routes.get("", summary="The copies and replicas, with their reasons")
    @requires("read")
    async def state() -> Response:
        """Return the copies of this site's streams, the stored replicas, and the policy's input."""
        return _json(_state(agent.replication))

    @routes.put("", summary="Request a copy", openapi_extra=json_body(CopyBody, _EXAMPLE))
    @requires("admin")
    @raises(ConflictError, NotFoundError)
    async def request_copy(request: Request) -> Response:
        """Request a copy of a stream at another site; the copy remains until a user withdraws it.

        With `move`, this site deletes points that the target has confirmed, once the points are
        older than `MISTBOW_MOVE_AFTER_S`. Reads at this site then get these points from the target.
        """
        body = decode_renamed(_COPY, await request.body(), {"offload": "move"})
        copy = await _open(agent).copies.request(
            CopyRequest(body.target.lower(), body.stream, body.filter, offload=body.offload)
        )
        await agent.membership.flush()
        return _json(copy)

    @routes.delete(
        "/copies/{copy_id}",
        status_code=204,
        summary="Withdraw a copy",
        dependencies=[Depends(only_parameters("site", "target", "force"))],
    )
    @requires("admin")
    @raises(ConflictError, NotFoundError)
    async def withdraw(
        copy_id: str,
        target: Annotated[str | None, Query(description="only at this site")] = None,
        force: Annotated[
            bool,
            Query(description="also the only copy of a fragile site, or one with offloaded points"),
        ] = False,
    ) -> None:
        """Withdraw a copy; if the policy requested the copy, the policy may request it again."""
        await _open(agent).copies.withdraw(copy_id, target, force=force)
        await agent.membership.flush()

    @routes.delete(
        "/replicas/{of}/{copy_id}",
        status_code=204,
        summary="Delete a replica",
        dependencies=[Depends(only_parameters("site", "force"))],
    )
    @requires("admin")
    @raises(ConflictError, NotFoundError)
    async def delete(
        of: str,
        copy_id: str,
        force: Annotated[bool, Query(description="even if no other copy is left")] = False,
    ) -> None:
        """Delete a replica that its source no longer requests, or whose source is unreachable.

        If the source returns and still requests the copy, the data is copied again.
        """
        await _open(agent).follower.delete(of.lower(), copy_id, force=force)
        await agent.membership.flush()


def _add_restriction_routes(routes: APIRouter, agent: Agent) -> None:
    @routes.get("/restrictions", summary="The restrictions: what may not be copied where")
    @requires("read")
    async def restrictions() -> Response:
        """Return the restrictions: `fixed` in the settings, and `declared` through this API."""
        present = agent.replication.restrictions
        return _json(Restrictions(present.fixed, present.declared))

    @routes.put(
        "/restrictions",
        summary="Declare restrictions",
        openapi_extra=json_body(tuple[Restriction, ...], _EXAMPLE_RESTRICTIONS),  # type: ignore[arg-type]
    )
    @requires("admin")
    @raises(ConflictError)
    async def declare(request: Request) -> Response:
        """Replace the declared restrictions.

        Copies with restricted data are replaced by copies without such data.
        """
        declared = parse_restrictions(await request.body())
        replication = _open(agent)
        replication.copies.check_restrictions(declared)
        replication.restrictions.declare(declared)
        replication.copies.refresh()
        await agent.membership.flush()
        return _json(Restrictions(replication.restrictions.fixed, declared))


def _add_agent_routes(routes: APIRouter, agent: Agent) -> None:
    @routes.get("/feed", summary="For other agents", response_class=StreamingResponse)
    @requires("replicate")
    @raises(ConflictError, NotFoundError)
    async def feed(
        target: str,
        copy_id: Annotated[str, Query(alias="id")],
        start: Annotated[int, Query(alias="from", ge=0, le=_MAX_NUMBER)],
        deleted: Annotated[int | None, Query(ge=0, le=_MAX_NUMBER)] = None,
    ) -> StreamingResponse:
        """Return the rows and deletions of a copy from the position `from` on.

        The answer continues as new rows arrive. Rows that restrictions withhold from the target are
        omitted. `deleted` is the number of the last deletion that the replica has received.
        """
        current_caller().check_site(target, f"the copies for {target}")
        # A feed is a subscription: while many are open, each other subscription retains less.
        with agent.subscriptions.counted():
            schema, chunks = await _open(agent).copy_reader.follow(
                target, copy_id, start, deleted, agent.subscriptions
            )
            first = await anext(chunks)
        parts = encode_chunks(schema, first, chunks)
        return StreamingResponse(agent.subscriptions.count(parts), media_type=MEDIA_TYPE)

    @routes.get("/held", summary="For other agents")
    @requires("replicate")
    @raises(NotFoundError)
    async def progress(of: str, copy_id: Annotated[str, Query(alias="id")]) -> Response:
        """Return the progress of a replica at this site, such as the reached position.

        `id` and `of` name the replica and its source site.

        The source deletes offloaded points only up to this position.
        """
        current_caller().check_site(of, f"the replicas of {of}")
        return _json(_open(agent).replica_server.progress(of, copy_id))

    @routes.post(
        "/points",
        summary="For other agents",
        openapi_extra=json_body(ReplicaPointsRequest, _EXAMPLE_POINTS),
        response_class=StreamingResponse,
    )
    @only_reads
    @requires("read", by_entity=True, for_peers=True)
    @raises(ConflictError, NotFoundError)
    async def points(request: Request) -> StreamingResponse:
        """Return points of a replica at this site as an Arrow IPC stream.

        The source requests its offloaded points; other sites request points while the source is
        unreachable.
        """
        body = decode_body(_REPLICA_POINTS, await request.body())
        current_caller().check_site(body.source, f"the replicas of {body.source}")
        with agent.subscriptions.counted():
            schema, first, chunks = await _open(agent).replica_server.points(body)
        parts = encode_chunks(schema, first, chunks)
        return StreamingResponse(agent.subscriptions.count(parts), media_type=MEDIA_TYPE)

    @routes.post(
        "/get", summary="For other agents", openapi_extra=json_body(ReplicaGetRequest, _EXAMPLE_GET)
    )
    @only_reads
    @requires("read", by_entity=True, for_peers=True)
    @raises(ConflictError, NotFoundError)
    async def get(request: Request) -> Response:
        """Answer a `/get` or `/query` from a replica at this site, in place of its source."""
        body = decode_body(_REPLICA_GET, await request.body())
        current_caller().check_site(body.source, f"the replicas of {body.source}")
        answer = await _open(agent).failover_reader.read(body)
        return Response(answer, media_type="application/json")


def _state(replication: Replication) -> ReplicationState:
    membership = replication.membership
    view = replication.policy_driver.view()
    others = {site.name: replica_facts(membership.facts_of(site.name)) for site in view.others}
    return ReplicationState(
        site=membership.site,
        stability=round(view.here.stability, 3),
        copies=replication.copies.all(),
        replicas=tuple(
            ReplicaState(
                source=replica.source,
                id=replica.copy.id,
                stream=replica.copy.stream,
                stored_in=replica.name,
                filter=replica.copy.filter,
                withheld=replica.copy.withheld,
                state=replica.state.value,
                complete=replica.complete,
                position=replica.position,
                rows=replica.rows,
                stale_ms=replica.stale_ms,
            )
            for replica in replication.follower.replicas()
        ),
        other_replicas={site: replicas for site, replicas in others.items() if replicas},
        sites=tuple(map(_peer_state, view.others)),
        reads=tuple(
            msgspec.structs.replace(read, per_minute=round(read.per_minute, 1))
            for read in view.reads
        ),
    )


def _peer_state(site: SiteView) -> PeerState:
    return PeerState(
        site=site.name,
        reachable=site.reachable,
        stability=round(site.stability, 3),
        latency_ms=site.latency_ms,
        usual_latency_ms=site.usual_latency_ms,
        losses=round(site.losses, 3),
        free_bytes=site.free_bytes,
        load=site.load,
    )


def _open(agent: Agent) -> Replication:
    if not agent.replication.is_open:
        raise UnavailableError("the agent is starting", hint="/readyz reports what it waits for.")
    return agent.replication


def _json(body: Any) -> Response:
    return Response(msgspec.json.encode(body), media_type="application/json")
