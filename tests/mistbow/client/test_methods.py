"""The calls of the clients: the requests, and how answers are read."""

import inspect
import io
import json
from collections.abc import Iterator
from contextlib import aclosing
from typing import Any

import httpx
import pyarrow as pa
import pytest
from fastapi import FastAPI
from fastapi.responses import JSONResponse, Response

from mistbow.client import fabric_calls, point_calls, record_calls
from mistbow.client.agent import AgentClient, AsyncAgentClient
from mistbow.client.agent_model import POINT_SCHEMA, Aggregated, FogNode, RowEvent
from mistbow.client.record_model import AppSchema, Record, RecordValue, Route, RoutingTable
from mistbow.client.transport import Call
from mistbow.errors import NotFoundError, UnavailableError
from mistbow.fabric import Worker
from mistbow.streams.wire import MEDIA_TYPE, Chunk, ChunkEncoder, Position
from tests.support.http_server import served


def body(call: Call[Any]) -> Any:
    return json.loads(call.content or b"")


def parsed(call: Call[Any], answer: Any) -> Any:
    return call.parse(httpx.Response(200, json=answer))


def arrow(rows: pa.Table, mark: str, content: Any) -> httpx.Response:
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write(rows)
        if mark:
            empty = pa.RecordBatch.from_pylist([], rows.schema)
            writer.write_batch(empty, custom_metadata={mark: json.dumps(content)})
    return httpx.Response(200, content=sink.getvalue())


def test_get_table_returns_points_and_the_nodes_that_are_missing() -> None:
    call = point_calls.get_table("m", ["a", "b"], start=1, end=2, nodes=[])
    assert body(call) == {"metricID": "m", "entityID": ["a", "b"], "from": 1, "to": 2, "nodes": []}
    assert call.headers["Accept"] == MEDIA_TYPE
    point = pa.table([["n"], ["m"], ["a"], [1], [2.5]], schema=POINT_SCHEMA)
    table = call.parse(arrow(point, "end", {"rows": 1}))
    assert table.equals(point)
    assert list(table.to_pandas()["value"]) == [2.5]
    missing = [{"node": "x", "reason": "silent"}]
    away = call.parse(arrow(point.slice(1), "end", {"rows": 0, "missing": missing}))
    assert away.num_rows == 0
    assert json.loads(away.schema.metadata[b"missing"]) == {"x": "silent"}


@pytest.mark.parametrize(
    ("mark", "reason"), [("error", "Ignite is away"), ("", "the end mark is missing")]
)
def test_get_table_raises_when_answer_was_interrupted(mark: str, reason: str) -> None:
    point = pa.table([["n"], ["m"], ["a"], [1], [2.5]], schema=POINT_SCHEMA)
    answer = arrow(point, mark, {"code": "unavailable", "message": "Ignite is away"})
    with pytest.raises(UnavailableError, match=reason):
        point_calls.get_table("m").parse(answer)


def test_iterate_points_requests_pages_until_there_is_no_next() -> None:
    paged = point_calls.iterate_points("m", start=1, limit=2)
    first = paged.request(None)
    assert body(first) == {"metricID": "m", "from": 1, "limit": 2}
    series = {"metricID": "m", "entityID": "a", "values": [{"timestamp": 1, "val": 2.5}]}
    page = parsed(first, {"monitoring": [{"node": "n", "data": [series]}], "next": "c"})
    assert ([each.node for each in page.items], page.next) == (["n"], "c")
    assert body(paged.request("c")) == {"metricID": "m", "from": 1, "limit": 2, "cursor": "c"}
    assert parsed(first, {"monitoring": [], "next": None}).next is None


def test_iterate_series_requests_pages_until_there_is_no_next() -> None:
    paged = point_calls.iterate_series("m", fields=["units"], limit=2)
    first = paged.request(None)
    assert body(first) == {"metricID": "m", "fields": ["units"], "limit": 2}
    page = parsed(first, {"metric": [{"metricID": "m"}], "next": "c"})
    assert (list(page.items), page.next) == ([{"metricID": "m"}], "c")
    assert parsed(first, {"metric": []}).next is None


def test_calls_of_points_encode_requests_and_read_answers() -> None:
    call = point_calls.query("avg", "m", latest=True, group="g")
    assert body(call) == {"metricID": "m", "latest": True, "groupName": "g", "agg": "avg"}
    answer = {"value": None, "missing": [{"node": "x", "reason": "silent"}]}
    assert parsed(call, answer) == Aggregated(None, {"x": "silent"})
    listing = point_calls.list_series(entity="e", fields=["units"])
    assert body(listing) == {"entityID": "e", "fields": ["units"]}
    assert parsed(listing, {"metric": [{"metricID": "m"}]}) == [{"metricID": "m"}]
    nodes = {"nodes": [{"hostname": "n", "cluster_head": True}]}
    assert parsed(point_calls.nodes(), nodes) == [FogNode("n", True)]
    gone = point_calls.delete("m", start=1)
    assert (gone.method, gone.path, body(gone)) == (
        "DELETE",
        "/monitoring",
        {"metricID": "m", "from": 1},
    )


def test_calls_of_records_encode_requests_and_read_answers() -> None:
    put = record_calls.put("application", [Record("k", {"x": 1}, 5, "s")], "key")
    assert put.path == "/app/put"
    assert put.headers["Idempotency-Key"] == "key"
    assert body(put) == {
        "application": [{"key": "k", "val": {"x": 1}, "timestamp": 5, "schema": "s"}]
    }
    get = record_calls.get("analytics", "k", start=1, end=2, from_key="from", limit=3)
    assert get.path == "/analytics/get"
    assert body(get) == {"key": "k", "from": 1, "to": 2, "start": "from", "limit": 3}
    item = {"key": "k", "values": [{"timestamp": 1, "val": None}]}
    found = parsed(get, {"analytics": [item, item]})
    assert found.values == {"k": [RecordValue(1, None)] * 2}
    assert not found.missing
    gone = record_calls.delete("analytics", ["k"])
    assert (gone.method, gone.path, body(gone)) == ("DELETE", "/analytics", {"key": ["k"]})
    schema = record_calls.put_schema(AppSchema("a/b", {"type": "object"}, ("x",)))
    assert (schema.method, schema.path) == ("PUT", "/app/schemas/a%2Fb")


def test_routes_returns_the_latest_table_of_each_node() -> None:
    put = record_calls.put_routes([RoutingTable([Route("0.0.0.0/0", metric=1)], "n")])
    assert body(put) == {
        "routing": [{"routes": [{"destination": "0.0.0.0/0", "metric": 1}], "node": "n"}]
    }
    tables = [
        {"timestamp": 1, "routes": []},
        {"timestamp": 2, "routes": [{"destination": "10.0.0.0/8"}]},
    ]
    found = parsed(record_calls.routes([]), {"routing": [{"node": "n", "values": tables}]})
    assert found.tables == {"n": RoutingTable([Route("10.0.0.0/8")], "n", 2)}


def test_a_method_of_a_class_builds_its_call_and_documents_itself() -> None:
    assert AgentClient.nodes().path == "/nodes"
    assert AgentClient.nodes.__doc__ == point_calls.nodes.__doc__
    assert list(inspect.signature(AsyncAgentClient.get).parameters)[:3] == [
        "metric",
        "entity",
        "start",
    ]


def test_calls_for_another_site_name_the_site_unless_they_are_local() -> None:
    assert point_calls.nodes().at("edge").params == {"site": "edge"}
    assert point_calls.nodes().at(None).params == {}
    assert fabric_calls.fabric().at("edge").params == {}
    worker = Worker(name="w", url="http://w", cores=1, memory_mb=1, cores_free=1, memory_free_mb=1)
    assert fabric_calls.announce(worker).at("edge").params == {}


@pytest.fixture
def agent() -> Iterator[str]:
    """Serve a list of nodes, an unknown stream, and a stream that is cut off; yield the URL.

    The answer for the last stream ends after two chunks.
    """
    app = FastAPI()

    @app.post("/nodes")
    def nodes(site: str) -> dict[str, Any]:
        return {"nodes": [{"hostname": site, "cluster_head": True}]}

    @app.get("/streams/{name}/info")
    def info(name: str) -> Response:
        error = {"error": {"code": "not_found", "message": f"no stream {name}"}}
        return JSONResponse(error, 404)

    @app.get("/streams/{name}/events")
    def events() -> Response:
        return Response('id: 1\nevent: row\ndata: {"x": 1}\n\n', media_type="text/event-stream")

    @app.get("/streams/{name}")
    def chunks() -> Response:
        return Response(CHUNKS, media_type=MEDIA_TYPE)

    with served(app) as url:
        yield url


def _chunks() -> bytes:
    encoder = ChunkEncoder(pa.schema([("x", pa.int64())]))
    rows = pa.record_batch({"x": [1, 2]})
    return b"".join(encoder.encode(Chunk(rows, Position(end, 0))) for end in (2, 4))


CHUNKS = _chunks()


def test_sync_client_sends_calls_and_follows_streams(agent: str) -> None:
    client = AgentClient(agent)
    assert client.at("edge").nodes() == [FogNode("edge", True)]
    with pytest.raises(NotFoundError, match="no stream"):
        client.info("s")
    chunks = client.follow("s")
    assert [next(chunks).position.next for _ in range(2)] == [2, 4]
    with pytest.raises(UnavailableError, match="the stream s was interrupted"):
        next(chunks)
    events = client.events("s")
    assert next(events) == RowEvent({"x": 1}, 1)
    assert client.at("edge").records._site == "edge"
    client.close()


async def test_async_client_sends_calls_and_follows_streams(agent: str) -> None:
    client = AsyncAgentClient(agent)
    assert await client.at("edge").nodes() == [FogNode("edge", True)]
    with pytest.raises(NotFoundError, match="no stream"):
        await client.info("s")
    chunks = client.follow("s")
    assert [(await anext(chunks)).position.next for _ in range(2)] == [2, 4]
    with pytest.raises(UnavailableError, match="the stream s was interrupted"):
        await anext(chunks)
    async with aclosing(client.events("s")) as events:
        assert await anext(events) == RowEvent({"x": 1}, 1)
    assert client.at("edge").operations._site == "edge"
    await client.close()
