"""The records API: analytics, applications with their schemas, and routing tables."""

from typing import Annotated

import msgspec
from fastapi import APIRouter, Depends, Header, Request, Response

from mistbow.auth.rules import Rule, requires
from mistbow.errors import InvalidRequestError
from mistbow.http.shortcut import Content, Headers, Shortcut, key_of
from storage_agent.agent import Agent
from storage_agent.fabric.relay import relayed, takes_site
from storage_agent.monitoring.api import check_key, takes
from storage_agent.monitoring.bodies import read_body
from storage_agent.records import examples
from storage_agent.records.bodies import (
    AnalyticsBody,
    AppBody,
    DeleteBody,
    Item,
    QueryBody,
    ReadBody,
    RoutingBody,
    RoutingReadBody,
    SchemaBody,
)

_ANALYTICS = msgspec.json.Decoder(AnalyticsBody)
_APP = msgspec.json.Decoder(AppBody)
_READ = msgspec.json.Decoder(ReadBody)
_DELETE = msgspec.json.Decoder(DeleteBody)
_QUERY = msgspec.json.Decoder(QueryBody)
_SCHEMA = msgspec.json.Decoder(SchemaBody)
_ROUTING = msgspec.json.Decoder(RoutingBody)
_ROUTING_READ = msgspec.json.Decoder(RoutingReadBody)

_Key = Annotated[str | None, Header()]


def records_routes(agent: Agent) -> APIRouter:
    """Return the routes of an agent."""
    routes = APIRouter(
        tags=["records"],
        route_class=relayed(agent.relay),
        dependencies=[Depends(takes_site)],
    )
    _add_analytics_routes(routes, agent)
    _add_app_routes(routes, agent)
    _add_schema_routes(routes, agent)
    _add_routing_routes(routes, agent)
    return routes


def records_shortcuts(agent: Agent) -> dict[str, Shortcut]:
    """Return the short ways to what is put and read most."""

    def put(word: str) -> Shortcut:
        async def handle(body: bytes, headers: Headers) -> tuple[int, Content]:
            return 200, await _put(agent, word, body, key_of(headers))

        return Shortcut(Rule("ingest", by_entity=False), handle)

    def get(word: str) -> Shortcut:
        async def handle(body: bytes, _: Headers) -> tuple[int, Content]:
            return 200, await _get(agent, word, body)

        return Shortcut(Rule("read", by_entity=False), handle)

    return {
        "/analytics/put": put("analytics"),
        "/analytics/get": get("analytics"),
        "/app/put": put("application"),
        "/app/get": get("application"),
    }


async def _put(agent: Agent, word: str, content: bytes, key: str | None) -> bytes:
    check_key(key)
    if word == "analytics":
        items = read_body(_ANALYTICS, content).analytics
    else:
        items = _items(read_body(_APP, content))
    await agent.records.put(word, items, key)
    return _stored(len(items))


async def _get(agent: Agent, word: str, content: bytes) -> bytes:
    return await agent.records.get(word, read_body(_READ, content))


def _add_analytics_routes(routes: APIRouter, agent: Agent) -> None:
    @routes.post(
        "/analytics/put",
        summary="Store results of analytics",
        openapi_extra=takes(AnalyticsBody, examples.ANALYTICS),
    )
    @requires("ingest")
    async def put(request: Request, idempotency_key: _Key = None) -> Response:
        """Store all records of the body or none; they are durable once this answers."""
        return _json(await _put(agent, "analytics", await request.body(), idempotency_key))

    @routes.post(
        "/analytics/get",
        summary="Read results of analytics",
        openapi_extra=takes(ReadBody, examples.READ),
    )
    @requires("read")
    async def get(request: Request) -> Response:
        """Return the latest of each `key`, or with `from` and `to` (ms, inclusive) all in between.

        `nodes` as in `/get`.
        """
        return _json(await _get(agent, "analytics", await request.body()))

    @routes.delete(
        "/analytics",
        summary="Delete results of analytics",
        openapi_extra=takes(DeleteBody, examples.DELETE),
    )
    @requires("admin")
    async def delete(request: Request) -> Response:
        """Delete all of each `key`, or with `from` and `to` (ms, inclusive) what is in between."""
        return await _delete(agent, "analytics", request)


def _add_app_routes(routes: APIRouter, agent: Agent) -> None:
    @routes.post(
        "/app/put", summary="Store application data", openapi_extra=takes(AppBody, examples.APP)
    )
    @requires("ingest")
    async def put(request: Request, idempotency_key: _Key = None) -> Response:
        """Store all records of the body or none; they are durable once this answers.

        An item that names a `schema` must be valid by it.
        """
        return _json(await _put(agent, "application", await request.body(), idempotency_key))

    @routes.post(
        "/app/get", summary="Read application data", openapi_extra=takes(ReadBody, examples.READ)
    )
    @requires("read")
    async def get(request: Request) -> Response:
        """Return the latest of each `key`, or with `from` and `to` (ms, inclusive) all in between.

        In the order of keys; with `start` those from there on, at most `limit`. `nodes` as in
        `/get`.
        """
        return _json(await _get(agent, "application", await request.body()))

    @routes.delete(
        "/app", summary="Delete application data", openapi_extra=takes(DeleteBody, examples.DELETE)
    )
    @requires("admin")
    async def delete(request: Request) -> Response:
        """Delete all of each `key`, or with `from` and `to` (ms, inclusive) what is in between."""
        return await _delete(agent, "application", request)

    @routes.post(
        "/app/query",
        summary="Find application data",
        openapi_extra=takes(QueryBody, examples.QUERY),
    )
    @requires("read")
    async def query(request: Request) -> Response:
        """Return the latest records of a schema whose fields are as `where` says.

        A field is to equal a value, or to be in a range: `{"gte": 1, "lte": 5}`.
        """
        return _json(await agent.records.query(read_body(_QUERY, await request.body())))


def _add_schema_routes(routes: APIRouter, agent: Agent) -> None:
    @routes.get("/app/schemas", summary="All schemas")
    @requires("read")
    async def all_schemas() -> Response:
        return _json(msgspec.json.encode({"schemas": agent.records.schemas.all()}))

    @routes.get("/app/schemas/{name}", summary="A schema")
    @requires("read")
    async def schema(name: str) -> Response:
        return _json(msgspec.json.encode(agent.records.schemas.get(name)))

    @routes.put(
        "/app/schemas/{name}",
        summary="Register a schema",
        openapi_extra=takes(SchemaBody, examples.SCHEMA),
    )
    @requires("admin")
    async def register(name: str, request: Request) -> Response:
        """The answer is 201 if the schema is new; what was put before is not checked again."""
        made = await agent.records.register(name, read_body(_SCHEMA, await request.body()))
        data = msgspec.json.encode(agent.records.schemas.get(name))
        return Response(data, 201 if made else 200, media_type="application/json")

    @routes.delete("/app/schemas/{name}", status_code=204, summary="Remove a schema")
    @requires("admin")
    async def remove(name: str) -> None:
        """Records that name it stay."""
        await agent.records.unregister(name)


def _add_routing_routes(routes: APIRouter, agent: Agent) -> None:
    @routes.post(
        "/routing/put",
        summary="Store routing tables",
        openapi_extra=takes(RoutingBody, examples.ROUTING),
    )
    @requires("ingest")
    async def put(request: Request, idempotency_key: _Key = None) -> Response:
        """Store all tables of the body or none; by default of this node, and of now."""
        check_key(idempotency_key)
        body = read_body(_ROUTING, await request.body())
        await agent.records.routing.put(body.routing, idempotency_key)
        return _json(_stored(len(body.routing), "tables"))

    @routes.post(
        "/routing/get",
        summary="Read routing tables",
        openapi_extra=takes(RoutingReadBody, examples.ROUTING_READ),
    )
    @requires("read")
    async def get(request: Request) -> Response:
        """Return the latest tables, or with `from` and `to` (ms, inclusive) all in between.

        Without `nodes` those that this agent keeps, with an empty list all.
        """
        body = read_body(_ROUTING_READ, await request.body())
        return _json(await agent.records.routing.get(body))


async def _delete(agent: Agent, word: str, request: Request) -> Response:
    await agent.records.delete(word, read_body(_DELETE, await request.body()))
    return _json(msgspec.json.encode({"result": "OK", "message": "deleted"}))


def _items(body: AppBody) -> list[Item]:
    given = [items for items in (body.application, body.app) if items is not None]
    if len(given) != 1:
        raise InvalidRequestError(
            "application: it is missing" if not given else "app: application says it already",
            hint='The body is {"application": [{"key", "val", "timestamp"}]}.',
        )
    return given[0]


def _stored(count: int, what: str = "records") -> bytes:
    return msgspec.json.encode({"result": "OK", "message": f"{count} {what} stored"})


def _json(data: bytes) -> Response:
    return Response(data, media_type="application/json")
