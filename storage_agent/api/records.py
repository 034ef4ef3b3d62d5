"""HTTP routes for records of analytics and applications, for schemas, and for routing tables."""

import msgspec
from fastapi import APIRouter, Depends, Request, Response

from mistbow.auth.rules import requires
from mistbow.errors import (
    ConflictError,
    InvalidRequestError,
    NotFoundError,
    ReusedKeyError,
    StorageFullError,
)
from mistbow.http.field_conversion import convert_read, convert_records
from mistbow.http.parameters import only_parameters, reject_unknown_parameters
from mistbow.openapi import raises
from mistbow.timestamps import Timestamps
from storage_agent.agent.agent import Agent
from storage_agent.http.abandonment import only_reads
from storage_agent.http.decode import decode_body
from storage_agent.http.deletions import read_deletion
from storage_agent.http.hot_routes import Headers, HotRoutes
from storage_agent.http.idempotency import (
    KEY_PARAMETER,
    IdempotencyKey,
    header_key,
    request_key,
)
from storage_agent.http.openapi import json_body
from storage_agent.http.responses import Content, json_response
from storage_agent.http.timed_bodies import read_timed
from storage_agent.membership.proxy import proxied_router
from storage_agent.records import examples
from storage_agent.records.bodies import (
    AnalyticsBody,
    AppBody,
    RecordDeleteBody,
    RecordItem,
    RecordQueryBody,
    RecordReadBody,
    RoutingBody,
    RoutingReadBody,
    SchemaBody,
)
from storage_agent.request_key import RequestKey

_ANALYTICS = msgspec.json.Decoder(AnalyticsBody)
_APP = msgspec.json.Decoder(AppBody)
_READ = msgspec.json.Decoder(RecordReadBody)
_DELETE = msgspec.json.Decoder(RecordDeleteBody)
_QUERY = msgspec.json.Decoder(RecordQueryBody)
_SCHEMA = msgspec.json.Decoder(SchemaBody)
_ROUTING = msgspec.json.Decoder(RoutingBody)
_ROUTING_READ = msgspec.json.Decoder(RoutingReadBody)
_KINDS = (
    ("analytics", "/analytics", "results of analytics"),
    ("application", "/app", "application data"),
)


def records_routes(agent: Agent, hot_routes: HotRoutes, times: Timestamps) -> APIRouter:
    """Return the routes that store, read and delete records.

    The routes that put and get records of analytics and applications are hot routes.
    """
    routes = proxied_router(agent.proxy, "records")
    _add_analytics_routes(routes, hot_routes, agent, times)
    _add_application_routes(routes, hot_routes, agent, times)
    for kind, path, noun in _KINDS:
        _add_kind_routes(routes, hot_routes, agent, times, kind, path, noun)
    _add_schema_routes(routes, agent)
    _add_routing_routes(routes, agent, times)
    return routes


def _add_analytics_routes(
    routes: APIRouter, hot_routes: HotRoutes, agent: Agent, times: Timestamps
) -> None:
    @hot_routes.post(
        routes,
        "/analytics/put",
        scope="ingest",
        summary="Store results of analytics",
        operation=json_body(AnalyticsBody, examples.ANALYTICS) | KEY_PARAMETER,
        errors=(ConflictError, ReusedKeyError, StorageFullError),
    )
    async def put(content: bytes, headers: Headers) -> tuple[int, Content]:
        """Store either all records of the body or no records.

        The records are durable once the request succeeds.
        """
        items = (await read_timed(_ANALYTICS, content, times, convert_records)).analytics
        return 200, await _put(agent, "analytics", items, header_key(headers, content))


def _add_application_routes(
    routes: APIRouter, hot_routes: HotRoutes, agent: Agent, times: Timestamps
) -> None:
    @hot_routes.post(
        routes,
        "/app/put",
        scope="ingest",
        summary="Store application data",
        operation=json_body(AppBody, examples.APP) | KEY_PARAMETER,
        errors=(ConflictError, NotFoundError, ReusedKeyError, StorageFullError),
    )
    async def put(content: bytes, headers: Headers) -> tuple[int, Content]:
        """Store either all records of the body or no records.

        The records are durable once the request succeeds. A record that names a `schema` must be
        valid against this schema.
        """
        items = _items(await read_timed(_APP, content, times, convert_records))
        return 200, await _put(agent, "application", items, header_key(headers, content))

    @routes.post(
        "/app/query",
        summary="Find application data",
        openapi_extra=json_body(RecordQueryBody, examples.QUERY),
    )
    @only_reads
    @requires("read")
    @raises(NotFoundError)
    async def query(request: Request) -> Response:
        """Return the latest records of a schema that satisfy the conditions `where`.

        A condition on a field is the expected value, or a range: `{"gte": 1, "lte": 5}`.
        """
        body = await read_timed(_QUERY, await request.body(), times)
        return json_response(await agent.records.query(body))


def _add_kind_routes(
    routes: APIRouter,
    hot_routes: HotRoutes,
    agent: Agent,
    times: Timestamps,
    kind: str,
    path: str,
    noun: str,
) -> None:
    """Add the routes that read and delete records of one kind (analytics or applications).

    ``kind``: the kind, as in ``agent.records``. ``path``: the prefix of the routes. ``noun``: the
    name of the records in summaries.
    """

    @hot_routes.post(
        routes,
        f"{path}/get",
        scope="read",
        summary=f"Read {noun}",
        operation=json_body(RecordReadBody, examples.READ),
        only_reads=True,
    )
    async def get(content: bytes, _headers: Headers) -> tuple[int, Content]:
        """Return the latest record of each `key`; with `from` or `to`, all records of these times.

        `from` and `to` are in ms, inclusive. The keys in the answer are sorted. `start` is the
        first key to return, and `limit` the maximum number of keys. `nodes` are names of nodes or
        sites: without `nodes`, the agent answers for its own node; if `nodes` is an empty list, all
        nodes answer.
        """
        if not content:
            return 200, msgspec.json.encode({kind: []})
        return 200, await agent.records.get(
            kind, await read_timed(_READ, content, times, convert_read)
        )

    @routes.delete(
        path, summary=f"Delete {noun}", openapi_extra=json_body(RecordDeleteBody, examples.DELETE)
    )
    @requires("admin")
    async def delete(request: Request) -> Response:
        """Delete the records of each `key`; `from` and `to` (ms, inclusive) restrict the times."""
        reject_unknown_parameters(request)
        body = await read_deletion(_DELETE, await request.body(), times)
        await agent.records.delete(kind, body)
        return json_response(msgspec.json.encode({"result": "OK", "message": "deleted"}))


def _add_schema_routes(routes: APIRouter, agent: Agent) -> None:
    @routes.get("/app/schemas", summary="All schemas")
    @requires("read")
    async def all_schemas() -> Response:
        return json_response(msgspec.json.encode({"schemas": agent.records.schemas.all()}))

    @routes.get("/app/schemas/{name}", summary="A schema")
    @requires("read")
    @raises(NotFoundError)
    async def schema(name: str) -> Response:
        return json_response(msgspec.json.encode(agent.records.schemas.get(name)))

    @routes.put(
        "/app/schemas/{name}",
        summary="Register a schema",
        openapi_extra=json_body(SchemaBody, examples.SCHEMA),
        dependencies=[Depends(only_parameters("site"))],
    )
    @requires("admin")
    @raises(StorageFullError)
    async def register(name: str, request: Request) -> Response:
        """Register or replace a schema; the status is 201 if the schema is new.

        Stored records are not validated again.
        """
        is_new = await agent.records.register(name, decode_body(_SCHEMA, await request.body()))
        content = msgspec.json.encode(agent.records.schemas.get(name))
        return json_response(content, 201 if is_new else 200)

    @routes.delete("/app/schemas/{name}", status_code=204, summary="Remove a schema")
    @requires("admin")
    @raises(NotFoundError)
    async def remove(name: str, request: Request) -> None:
        """Remove a schema; records that name the schema remain."""
        reject_unknown_parameters(request)
        await agent.records.unregister(name)


def _add_routing_routes(routes: APIRouter, agent: Agent, times: Timestamps) -> None:
    @routes.post(
        "/routing/put",
        summary="Store routing tables",
        openapi_extra=json_body(RoutingBody, examples.ROUTING),
        dependencies=[Depends(only_parameters("site"))],
    )
    @requires("ingest")
    @raises(ReusedKeyError)
    async def put(request: Request, idempotency_key: IdempotencyKey = None) -> Response:
        """Store either all tables of the body or no tables.

        The default node of a table is this node; the default timestamp is the present time.
        """
        content = await request.body()
        key = request_key(idempotency_key, content)
        body = await read_timed(_ROUTING, content, times)
        await agent.records.routing.put(body.routing, key)
        return json_response(_stored(len(body.routing), "tables"))

    @routes.post(
        "/routing/get",
        summary="Read routing tables",
        openapi_extra=json_body(RoutingReadBody, examples.ROUTING_READ),
    )
    @requires("read")
    async def get(request: Request) -> Response:
        """Return the latest tables, or the tables from `from` to `to` (ms, inclusive).

        Without `nodes`, the answer has the tables that this agent stores. If `nodes` is an empty
        list, the answer has all tables.
        """
        body = await read_timed(_ROUTING_READ, await request.body(), times)
        return json_response(await agent.records.routing.get(body))


async def _put(agent: Agent, kind: str, items: list[RecordItem], key: RequestKey | None) -> bytes:
    await agent.records.put(kind, items, key)
    return _stored(len(items))


def _items(body: AppBody) -> list[RecordItem]:
    given = [items for items in (body.application, body.app) if items is not None]
    if len(given) != 1:
        raise InvalidRequestError(
            "application: the field is missing"
            if not given
            else "app: the field repeats application; send only one of them",
            hint='Send {"application": [{"key", "val", "timestamp"}]}.',
        )
    return given[0]


def _stored(count: int, noun: str = "records") -> bytes:
    return msgspec.json.encode({"result": "OK", "message": f"{count} {noun} stored"})
