"""HTTP routes for points, as the specification defines them, such as /put, /get and /query."""

import asyncio
import time
from types import TracebackType

import msgspec
import pyarrow as pa
from fastapi import APIRouter, Request, Response

from mistbow.auth.rules import requires
from mistbow.client.agent_model import POINT_SCHEMA
from mistbow.errors import (
    ConflictError,
    MistbowError,
    NotAcceptableError,
    ReusedKeyError,
    StorageFullError,
)
from mistbow.http.field_conversion import convert_items, convert_read
from mistbow.openapi import raises
from mistbow.timestamps import Timestamps
from storage_agent import metrics
from storage_agent.agent.agent import Agent
from storage_agent.http.abandonment import NOBODY_WAITS, cancelled_at_disconnect, only_reads
from storage_agent.http.accept import JSON, ROW_TYPES, accept_of, negotiate
from storage_agent.http.cursors import decode_cursor, encode_cursor
from storage_agent.http.decode import decode_body
from storage_agent.http.deletions import DeleteBody, check_deletion, is_dry_run, read_deletion
from storage_agent.http.hot_routes import Headers, HotRoutes
from storage_agent.http.idempotency import KEY_PARAMETER, header_key
from storage_agent.http.openapi import Operation, json_body
from storage_agent.http.points import GET, LIST, MAX_PAGE, ListBody, PagedBody, PutBody, QueryBody
from storage_agent.http.responses import Answer, Content, json_response
from storage_agent.http.timed_bodies import read_timed
from storage_agent.membership.proxy import proxied_router
from storage_agent.timeseries.deletion import encode_deletion
from storage_agent.timeseries.point_queries import name_set
from storage_agent.timeseries.row_answers import End, ReadPage, RowsResponse, row_encoder
from storage_agent.timeseries.series_pages import row_schema
from storage_agent.timeseries.series_queries import nodes

_PUT = msgspec.json.Decoder(PutBody)
_GET = msgspec.json.Decoder(PagedBody)
_QUERY = msgspec.json.Decoder(QueryBody)
_LIST = msgspec.json.Decoder(ListBody)
_DELETE = msgspec.json.Decoder(DeleteBody)
_NOTHING = {GET: b'{"monitoring":[]}', LIST: b'{"metric":[]}'}
"""Path -> the answer to an empty body, which selects nothing; ``{}`` selects everything."""

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
_DRY_RUN: Operation = {
    "parameters": [
        {
            "name": "dry_run",
            "in": "query",
            "required": False,
            "description": "count the points, and delete none",
            "schema": {"type": "boolean", "default": False},
        }
    ]
}
_EXAMPLE_LIST = {"entityID": ["entity1"], "fields": ["units", "podName", "containerName"]}


def points_routes(agent: Agent, hot_routes: HotRoutes, node: str, times: Timestamps) -> APIRouter:
    """Return the routes that write and read points; ``/put`` and ``/get`` are hot routes."""
    routes = proxied_router(agent.proxy, "monitoring")
    _add_hot_routes(routes, hot_routes, agent, times)
    _add_query_routes(routes, agent, node, times)
    _add_series_routes(routes, agent, times)
    return routes


def _add_hot_routes(
    routes: APIRouter, hot_routes: HotRoutes, agent: Agent, times: Timestamps
) -> None:
    @hot_routes.post(
        routes,
        "/put",
        scope="ingest",
        by_entity=True,
        summary="Store points",
        operation=json_body(PutBody, _EXAMPLE_PUT) | KEY_PARAMETER,
        errors=(ConflictError, ReusedKeyError, StorageFullError),
    )
    async def put(content: bytes, headers: Headers) -> tuple[int, Content]:
        """Store either all points of the body or no points.

        The points are durable once the request succeeds. With an `Idempotency-Key`, a repeat within
        ten minutes stores no point again, and the key with another body is refused. The status is
        202 while Ignite is away: the points are in this node's spool until Ignite is back.
        """
        begin = time.perf_counter()
        with _CountRequest("/put"):
            key = header_key(headers, content)
            accepted = await agent.put(await read_timed(_PUT, content, times, convert_items), key)
        metrics.PUT_SECONDS.observe(time.perf_counter() - begin)
        outcome = "spooled until Ignite is back" if accepted.spooled else "stored"
        answer = {"result": "OK", "message": f"{accepted.points} points {outcome}"}
        return 202 if accepted.spooled else 200, msgspec.json.encode(answer)

    @hot_routes.post(
        routes,
        "/get",
        scope="read",
        by_entity=True,
        summary="Read points",
        operation=json_body(PagedBody, _EXAMPLE_GET),
        errors=(NotAcceptableError,),
        only_reads=True,
    )
    async def get(content: bytes, headers: Headers) -> tuple[int, Answer]:
        """Return the latest value of each series, or points from `from` to `to` (ms, inclusive).

        With `latest: false` and without times, all points are returned. `nodes` names nodes or
        sites; an empty list selects all nodes. `missing` lists the nodes that did not answer, with
        reasons. With `limit`, the answer is a page of about `limit` points. The header `Accept`
        selects JSON, line-delimited JSON or Arrow.
        """
        with _CountRequest("/get"):
            media_type = negotiate(headers.get(b"accept"), ROW_TYPES)
            if not content:
                return 200, _no_rows(media_type, GET, POINT_SCHEMA)
            body = await read_timed(_GET, content, times, convert_read)
            pages = agent.point_pages(body)
            if media_type != JSON:
                return 200, await _rows(media_type, POINT_SCHEMA, pages.read, GET, body)
            if body.limit is None:
                decode_cursor(GET, body)
                return 200, await agent.get(body)
            return 200, await _json_page(pages.read, GET, body)


def _add_query_routes(routes: APIRouter, agent: Agent, node: str, times: Timestamps) -> None:
    @routes.post(
        "/query", summary="Aggregate points", openapi_extra=json_body(QueryBody, _EXAMPLE_QUERY)
    )
    @only_reads
    @requires("read", by_entity=True)
    @raises(NotAcceptableError)
    async def query(request: Request) -> Response:
        """Return `{"value": …}`: the sum, maximum, minimum or average of selected points.

        The value is null if no point is selected. Each site aggregates its own points. `missing`
        has the same meaning as in `/get`.
        """
        with _CountRequest("/query"):
            negotiate(accept_of(request), (JSON,))
            body = await read_timed(_QUERY, await request.body(), times, convert_read)
            return json_response(await agent.query(body))

    @routes.post(
        "/query/parts",
        summary="Aggregate this node's points, for other agents",
        openapi_extra=json_body(QueryBody, _EXAMPLE_QUERY),
    )
    @only_reads
    @requires("read", by_entity=True)
    async def parts(request: Request) -> Response:
        """Return the count, sum, minimum and maximum of this node's points; ignores `agg`."""
        body = decode_body(_QUERY, await request.body())
        return json_response(msgspec.json.encode(await agent.aggregate(body)))

    @routes.delete(
        "/monitoring",
        summary="Delete points",
        openapi_extra=json_body(DeleteBody, {"entityID": ["entity1"]}) | _DRY_RUN,
    )
    @requires("admin", by_entity=True)
    async def delete(request: Request) -> Response:
        """Delete the points that the selectors, `from` and `to` select.

        At least one selector is required.

        The answer counts the points of each series, and lists at most 1,000 series. With `dry_run`,
        points are counted but not deleted. The parameter `site` names the site whose points are
        deleted; the default is this site. Unknown fields and parameters are refused.
        """
        dry_run = is_dry_run(request)
        body = await read_deletion(_DELETE, await request.body(), times)
        check_deletion(body)
        if dry_run:
            async with cancelled_at_disconnect(request.receive):
                deletion = await agent.delete(body, dry_run=True)
        else:
            deletion = await agent.delete(body, dry_run=False)
        return json_response(await asyncio.to_thread(encode_deletion, deletion, node))


def _add_series_routes(routes: APIRouter, agent: Agent, times: Timestamps) -> None:
    @routes.post("/list", summary="List series", openapi_extra=json_body(ListBody, _EXAMPLE_LIST))
    @only_reads
    @requires("read", by_entity=True)
    @raises(NotAcceptableError)
    async def list_series(request: Request) -> Response:
        """Return the metadata of series; `fields` names the metadata fields to return.

        `nodes` has the same meaning as in `/get`. This agent answers from its own copy of the
        metadata, which includes unreachable sites. With `limit`, the answer is a page of `limit`
        series. The header `Accept` selects JSON, line-delimited JSON or Arrow.
        """
        media_type = negotiate(accept_of(request), ROW_TYPES)
        content = await request.body()
        if not content:
            return json_response(_no_rows(media_type, LIST, row_schema(frozenset())))
        body = await read_timed(_LIST, content, times, convert_read)
        pages = agent.series_pages(body)
        if media_type != JSON:
            schema = row_schema(name_set(body.fields))
            return await _rows(media_type, schema, pages.read, LIST, body)
        if body.limit is None:
            decode_cursor(LIST, body)
            return json_response(await agent.list_series(body))
        return json_response(await _json_page(pages.read, LIST, body))

    @routes.post("/nodes", summary="All nodes")
    @requires("read")
    async def all_nodes() -> Response:
        """Return the names of all nodes, and which node is the cluster head.

        The cluster head is the reachable node whose name is alphabetically first.
        """
        return json_response(nodes(agent.membership))


async def _rows(
    media_type: str, schema: pa.Schema, read: ReadPage, path: str, body: PagedBody
) -> Response:
    """Return the items of a page, or without ``limit`` all items, as rows."""
    return await RowsResponse.start(
        media_type,
        schema,
        read,
        decode_cursor(path, body),
        body.limit,
        lambda key: encode_cursor(key, path, body),
    )


def _no_rows(media_type: str, path: str, schema: pa.Schema) -> Answer:
    """Return the answer to an empty body, which selects nothing."""
    if media_type == JSON:
        return _NOTHING[path]
    encoder = row_encoder(media_type, schema)
    return Response(encoder.mark("end", End(0)), media_type=media_type)


async def _json_page(read: ReadPage, path: str, body: PagedBody) -> Content:
    """Return a page as JSON; ``body`` has a limit."""
    after = decode_cursor(path, body)
    page = await read(after, body.limit or MAX_PAGE)
    cursor = None if page.next is None else encode_cursor(page.next, path, body)
    return await asyncio.to_thread(b"".join, page.to_json(cursor))


class _CountRequest:
    """A context manager that counts a request in the metrics, by path and status.

    The status of a request that is cancelled, since its client has disconnected, is 499.
    """

    def __init__(self, path: str) -> None:
        self._path = path

    def __enter__(self) -> None:
        pass

    def __exit__(
        self,
        _type: type[BaseException] | None,
        error: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        status = 200
        if error is not None:
            status = _status_of(error)
        metrics.REQUESTS.labels(self._path, str(status)).inc()


def _status_of(error: BaseException) -> int:
    if isinstance(error, asyncio.CancelledError):
        return NOBODY_WAITS
    return error.status if isinstance(error, MistbowError) else 500
