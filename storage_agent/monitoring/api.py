"""POST /put and POST /get: monitoring data in the specification's form."""

import time
from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Depends, Header, Request, Response
from fastapi.responses import StreamingResponse

from mistbow.auth.rules import Rule, requires
from mistbow.errors import InvalidRequestError, MistbowError
from mistbow.http.shortcut import Content, Headers, Shortcut, key_of
from storage_agent import metrics
from storage_agent.agent import Agent
from storage_agent.fabric.relay import relayed, takes_site
from storage_agent.monitoring.bodies import (
    GetBody,
    ListBody,
    PutBody,
    QueryBody,
    check_deletion_bounds,
    inline_schema,
    read_body,
)
from storage_agent.monitoring.listing import nodes

_PUT = msgspec.json.Decoder(PutBody)
_GET = msgspec.json.Decoder(GetBody)
_QUERY = msgspec.json.Decoder(QueryBody)
_LIST = msgspec.json.Decoder(ListBody)
_EXAMPLE_PUT = {
    "monitoring": [
        {
            "entityID": "entity1",
            "entityType": "type1",
            "metricID": "metric1",
            "name": "name1",
            "units": "metric units",
            "desc": "first metric",
            "group": "group1",
            "minVal": 5,
            "maxVal": 10,
            "higherIsBetter": True,
            "val": 6,
            "timestamp": 1795262400000,
            "labels": {"rack": "7"},
        }
    ]
}
_EXAMPLE_GET = {"metricID": ["metric1"], "from": 1795262400000, "to": 1795262460000}
_EXAMPLE_QUERY = {**_EXAMPLE_GET, "agg": "avg", "nodes": []}
_EXAMPLE_LIST = {"entityID": ["entity1"], "fields": ["units", "podName", "containerName"]}
_MOST_KEY = 200


def monitoring_routes(agent: Agent) -> APIRouter:
    """Return the routes of an agent."""
    routes = APIRouter(
        tags=["monitoring"],
        route_class=relayed(agent.relay),
        dependencies=[Depends(takes_site)],
    )

    @routes.post("/put", summary="Store points", openapi_extra=takes(PutBody, _EXAMPLE_PUT))
    @requires("ingest", by_entity=True)
    async def put(
        request: Request, idempotency_key: Annotated[str | None, Header()] = None
    ) -> Response:
        """Store all points of the body or none; they are durable once this answers.

        With an `Idempotency-Key`, a repeat within ten minutes stores nothing again. 202: Ignite is
        away; the points are durable on this node's disk, and are stored when it is back.
        """
        status, answer = await _put(agent, await request.body(), idempotency_key)
        return _json(answer, status)

    @routes.post("/get", summary="Read points", openapi_extra=takes(GetBody, _EXAMPLE_GET))
    @requires("read", by_entity=True)
    async def get(request: Request) -> Response:
        """Return the latest values, or with `from` and `to` (ms, inclusive) those in between.

        `latest: false` without times asks for everything. `nodes` names nodes or sites, and an
        empty list all of them; `missing` says which of them do not answer, and why.
        """
        return _json(await _get(agent, await request.body()))

    _add_summaries(routes, agent)
    return routes


def monitoring_shortcuts(agent: Agent) -> dict[str, Shortcut]:
    """Return the short ways to ``/put`` and ``/get``."""

    async def put(body: bytes, headers: Headers) -> tuple[int, bytes]:
        return await _put(agent, body, key_of(headers))

    async def get(body: bytes, _: Headers) -> tuple[int, Content]:
        return 200, await _get(agent, body)

    return {
        "/put": Shortcut(Rule("ingest", by_entity=True), put),
        "/get": Shortcut(Rule("read", by_entity=True), get),
    }


async def _put(agent: Agent, content: bytes, key: str | None) -> tuple[int, bytes]:
    begin = time.perf_counter()
    with _Counted("/put"):
        check_key(key)
        accepted = await agent.put(read_body(_PUT, content), key)
    metrics.PUT_SECONDS.observe(time.perf_counter() - begin)
    what = "spooled until Ignite is back" if accepted.spooled else "stored"
    answer = {"result": "OK", "message": f"{accepted.points} points {what}"}
    return 202 if accepted.spooled else 200, msgspec.json.encode(answer)


async def _get(agent: Agent, content: bytes) -> Content:
    with _Counted("/get"):
        return await agent.get(read_body(_GET, content))


def _add_summaries(routes: APIRouter, agent: Agent) -> None:
    @routes.post("/query", summary="Aggregate", openapi_extra=takes(QueryBody, _EXAMPLE_QUERY))
    @requires("read", by_entity=True)
    async def query(request: Request) -> Response:
        """Return the sum, max, min or average of what `/get` would return: `{"value": …}`.

        No points, no value: null. Each site computes its part; `missing` as in `/get`.
        """
        with _Counted("/query"):
            return _json(await agent.query(read_body(_QUERY, await request.body())))

    @routes.delete(
        "/monitoring",
        summary="Delete points",
        openapi_extra=takes(GetBody, {"entityID": ["entity1"]}),
    )
    @requires("admin", by_entity=True)
    async def delete(request: Request) -> Response:
        """Delete the points that filters, `from` and `to` select; at least one filter is needed.

        It is about this node, or the one of `site`.
        """
        body = read_body(_GET, await request.body())
        check_deletion(body)
        deleted = await agent.delete(body)
        message = f"points of {deleted} series deleted"
        return _json(msgspec.json.encode({"result": "OK", "message": message}))

    @routes.post(
        "/query/parts", summary="For other agents", openapi_extra=takes(QueryBody, _EXAMPLE_QUERY)
    )
    @requires("read", by_entity=True)
    async def parts(request: Request) -> Response:
        """Return count, sum, min and max of this node's points, whatever `agg` is."""
        body = read_body(_QUERY, await request.body())
        return _json(msgspec.json.encode(await agent.sums(body)))

    @routes.post("/list", summary="Read metadata", openapi_extra=takes(ListBody, _EXAMPLE_LIST))
    @requires("read", by_entity=True)
    async def list_series(request: Request) -> Response:
        """Return the metadata of series, all or some `fields` of it.

        `nodes` as in `/get`, but answered from what is known here, also of sites that are cut off.
        """
        return _json(agent.listed(read_body(_LIST, await request.body())))

    @routes.post("/nodes", summary="All nodes")
    @requires("read")
    async def all_nodes() -> Response:
        """Return every node's name; the head is the first by name of those that are reachable."""
        return _json(nodes(agent.member))


def check_key(key: str | None) -> None:
    """Refuse an idempotency key that is empty or too long."""
    if key is not None and not 1 <= len(key) <= _MOST_KEY:
        raise InvalidRequestError(f"Idempotency-Key takes 1 to {_MOST_KEY} characters")


def check_deletion(body: GetBody) -> None:
    """Refuse a deletion that may be of more than was meant."""
    filters = (
        *(body.metricID, body.entityID, body.entityType, body.groupName),
        *(body.podName, body.podNamespace, body.containerName),
    )
    if not any(filters):
        raise InvalidRequestError("no filter says what to delete", hint='As {"metricID": ["cpu"]}.')
    check_deletion_bounds(body.nodes, body.latest)


class _Counted:
    """Counts a request by how it ends."""

    def __init__(self, path: str) -> None:
        self._path = path

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: BaseException | None, _: Any) -> None:
        status = 200
        if error is not None:
            status = error.status if isinstance(error, MistbowError) else 500
        metrics.REQUESTS.labels(self._path, str(status)).inc()


def takes(body: type, example: dict[str, Any] | None = None) -> dict[str, Any]:
    """Return what OpenAPI says of a route with this JSON body."""
    content: dict[str, Any] = {"application/json": {"schema": inline_schema(body)}}
    if example is not None:
        content["application/json"]["example"] = example
    return {"requestBody": {"required": True, "content": content}}


def _json(data: Content, status: int = 200) -> Response:
    if isinstance(data, bytes):
        return Response(data, status, media_type="application/json")
    return StreamingResponse(data, status, media_type="application/json")
