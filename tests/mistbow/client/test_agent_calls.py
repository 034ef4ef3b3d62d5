"""The requests that clients send, as the agent takes them, and what becomes of answers."""

import inspect
import json
from typing import Any

import httpx
import pyarrow as pa
import pytest

from mistbow.client import agent_calls, record_calls
from mistbow.client.agent import AgentClient, AsyncAgentClient
from mistbow.client.agent_model import VALUES, Aggregated, Node
from mistbow.client.record_model import AppSchema, Record, RecordValue, Route, RoutingTable
from mistbow.client.records import AsyncRecordsClient, RecordsClient
from mistbow.client.transport import Call


def body(call: Call[Any]) -> Any:
    return json.loads(call.content or b"")


def answered(call: Call[Any], answer: Any) -> Any:
    return call.parse(httpx.Response(200, json=answer))


def test_a_table_of_values() -> None:
    call = agent_calls.get_table("m", ["a", "b"], 1, 2, None, {"nodes": []})
    assert body(call) == {"metricID": "m", "entityID": ["a", "b"], "from": 1, "to": 2, "nodes": []}
    series = {"metricID": "m", "entityID": "a", "values": [{"timestamp": 1, "val": 2.5}]}
    table = answered(call, {"monitoring": [{"node": "n", "data": [series]}]})
    assert table.equals(pa.table([["n"], ["m"], ["a"], [1], [2.5]], schema=VALUES))
    assert list(table.to_pandas()["value"]) == [2.5]
    away = answered(call, {"monitoring": [], "missing": [{"node": "x", "reason": "silent"}]})
    assert away.num_rows == 0
    assert json.loads(away.schema.metadata[b"missing"]) == {"x": "silent"}


def test_aggregates_lists_and_nodes() -> None:
    call = agent_calls.query("avg", "m", None, None, None, True, {"group": "g"})
    assert body(call) == {"metricID": "m", "latest": True, "groupName": "g", "agg": "avg"}
    answer = {"value": None, "missing": [{"node": "x", "reason": "silent"}]}
    assert answered(call, answer) == Aggregated(None, {"x": "silent"})
    listing = agent_calls.list_series(None, "e", ["units"], {})
    assert body(listing) == {"entityID": "e", "fields": ["units"]}
    assert answered(listing, {"metric": [{"metricID": "m"}]}) == [{"metricID": "m"}]
    nodes = {"nodes": [{"hostname": "n", "cluster_head": True}]}
    assert answered(agent_calls.nodes(), nodes) == [Node("n", True)]
    gone = agent_calls.delete("m", None, 1, None, {})
    assert (gone.method, gone.path, body(gone)) == (
        "DELETE",
        "/monitoring",
        {"metricID": "m", "from": 1},
    )


def test_records() -> None:
    put = record_calls.put("application", [Record("k", {"x": 1}, 5, "s")], "key")
    assert put.path == "/app/put"
    assert put.headers["Idempotency-Key"] == "key"
    assert body(put) == {
        "application": [{"key": "k", "val": {"x": 1}, "timestamp": 5, "schema": "s"}]
    }
    get = record_calls.get("analytics", "k", 1, 2, None, "from", 3)
    assert get.path == "/analytics/get"
    assert body(get) == {"key": "k", "from": 1, "to": 2, "start": "from", "limit": 3}
    item = {"key": "k", "values": [{"timestamp": 1, "val": None}]}
    found = answered(get, {"analytics": [item, item]})
    assert found.values == {"k": [RecordValue(1, None)] * 2}
    assert not found.missing
    gone = record_calls.delete("analytics", ["k"], None, None)
    assert (gone.method, gone.path, body(gone)) == ("DELETE", "/analytics", {"key": ["k"]})
    schema = record_calls.put_schema(AppSchema("a/b", {"type": "object"}, ("x",)))
    assert (schema.method, schema.path) == ("PUT", "/app/schemas/a%2Fb")


def test_routing_tables() -> None:
    put = record_calls.put_routes([RoutingTable([Route("0.0.0.0/0", metric=1)], "n")])
    assert body(put) == {
        "routing": [{"routes": [{"destination": "0.0.0.0/0", "metric": 1}], "node": "n"}]
    }
    tables = [{"timestamp": 1, "routes": []}, {"timestamp": 2, "routes": [{"destination": "x"}]}]
    found = answered(record_calls.get_routes([]), {"routing": [{"node": "n", "values": tables}]})
    assert found.tables == {"n": RoutingTable([Route("x")], "n", 2)}


@pytest.mark.parametrize(
    ("plain", "from_coroutines"),
    [(AgentClient, AsyncAgentClient), (RecordsClient, AsyncRecordsClient)],
)
def test_both_clients_do_the_same(plain: type, from_coroutines: type) -> None:
    def methods(kind: type) -> dict[str, list[str]]:
        return {
            name: list(inspect.signature(method).parameters)
            for name, method in vars(kind).items()
            if inspect.isfunction(method) and not name.startswith("_")
        }

    assert methods(plain) == methods(from_coroutines)
