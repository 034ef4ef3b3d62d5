"""POST /put and POST /get over HTTP, in the form of the specification."""

import json
from typing import Any

import httpx

from mistbow.client import AgentClient, Point
from mistbow.client.agent_model import Container, Pod
from mistbow.streams.schemas import RAW
from tests.storage_agent.conftest import ManualClock
from tests.support.conditions import eventually

# The specification's Code Snippet 1.
SNIPPET_1: dict[str, Any] = {
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
            "timestamp": 2611318068000,
        },
        {
            "entityID": "entity2",
            "entityType": "type2",
            "metricID": "metric2",
            "name": "name2",
            "units": "metric2 units",
            "desc": "second metric",
            "group": "group2",
            "minVal": None,
            "maxVal": 10,
            "higherIsBetter": True,
            "val": 6,
            "timestamp": 2611318068001,
        },
    ]
}


def post(url: str, path: str, body: object) -> dict[str, Any]:
    response = httpx.post(f"{url}{path}", json=body)
    assert response.status_code == 200, response.text
    answer: dict[str, Any] = response.json()
    return answer


def test_put_and_get_answer_as_specified(url: str) -> None:
    assert post(url, "/put", SNIPPET_1) == {"result": "OK", "message": "2 points stored"}
    first = {
        key: value
        for key, value in SNIPPET_1["monitoring"][0].items()
        if key not in ("val", "timestamp")
    }
    second = {
        key: value
        for key, value in SNIPPET_1["monitoring"][1].items()
        if key not in ("val", "timestamp", "minVal")
    }
    first["values"] = [{"timestamp": 2611318068000, "val": 6.0}]
    second["values"] = [{"timestamp": 2611318068001, "val": 6.0}]
    past = {"metricID": ["metric1"], "from": 2611318068000, "to": 4611318068000, "latest": False}
    assert post(url, "/get", past) == {"monitoring": [{"node": "n1", "data": [first]}]}
    latest = {"entityID": ["entity1", "entity2"], "latest": True}
    answer = post(url, "/get", latest)
    assert answer == {"monitoring": [{"node": "n1", "data": [first, second]}]}


def test_long_answer_is_streamed(url: str, client: AgentClient, clock: ManualClock) -> None:
    times = range(clock.now - 12_000, clock.now)
    client.put([Point("cpu", f"e{ts % 3}", ts, ts / 7) for ts in times])
    data = [
        {
            "metricID": "cpu",
            "entityID": f"e{of}",
            "values": [{"timestamp": ts, "val": ts / 7} for ts in times if ts % 3 == of],
        }
        for of in (times[0] % 3, times[1] % 3, times[2] % 3)
    ]
    asked = {"metricID": ["cpu"], "from": 0}
    for path in ("/get", "/get?site=n1"):
        response = httpx.post(f"{url}{path}", json=asked)
        assert response.headers["Content-Type"] == "application/json"
        assert response.headers["Transfer-Encoding"] == "chunked"
        assert response.json() == {"monitoring": [{"node": "n1", "data": data}]}
    everywhere = post(url, "/get", {**asked, "nodes": []})
    assert everywhere == {"monitoring": [{"node": "n1", "data": data}]}
    one = httpx.post(f"{url}/get", json={**asked, "entityID": "e1"})
    assert one.headers["Content-Length"]
    assert len(one.json()["monitoring"][0]["data"][0]["values"]) == 4000


def test_get_filters_select_series(client: AgentClient, clock: ManualClock) -> None:
    client.put(
        [
            Point("cpu", "a", clock.now, 1.0, entity_type="host", group="g1"),
            Point("cpu", "b", clock.now, 2.0, pod=Pod("u", "web", "shop")),
            Point("mem", "a", clock.now, 3.0, container=Container("c1", "db")),
        ]
    )

    def values(*args: Any, **filters: Any) -> list[float]:
        return [s.values[0].value for node in client.get(*args, **filters) for s in node.data]

    assert values() == [1, 2, 3]
    assert values("cpu") == [1, 2]
    assert values("cpu", "b") == [2]
    assert values(["cpu", "mem"], entity="a") == [1, 3]
    assert values(entity_type="host") == [1]
    assert values(group="g1") == [1]
    assert values(pod_name="web") == [2]
    assert values(pod_namespace=["shop"]) == [2]
    assert values(container_name="db") == [3]
    assert values(container_name="db", start=0) == [3]
    [elsewhere] = client.get("m", nodes=["elsewhere"])
    assert (elsewhere.data, elsewhere.missing) == ([], "no node or site has this name")
    assert values(nodes=["n1"]) == [1, 2, 3]
    assert values(nodes=[]) == [1, 2, 3]


def test_values_are_sorted_by_time_then_position(client: AgentClient, clock: ManualClock) -> None:
    now = clock.now
    for ts, value in [(now, 1.0), (now - 500, 2.0), (now, 3.0), (now - 900, 4.0)]:
        client.put([Point("m", "e", ts, value)])
    [node] = client.get("m", start=now - 600, end=now)
    assert [(v.ts, v.value) for v in node.data[0].values] == [
        (now - 500, 2.0),
        (now, 1.0),
        (now, 3.0),
    ]
    # The latest value never goes back in time, and of equal times the last counts.
    [node] = client.get("m")
    assert [(v.ts, v.value) for v in node.data[0].values] == [(now, 3.0)]
    [node] = client.get("m", latest=False)
    assert len(node.data[0].values) == 4


def test_put_merges_metadata(client: AgentClient, clock: ManualClock) -> None:
    client.put(
        [
            Point("m", "e", clock.now, 1.0, units="V"),
            Point("m", "e", clock.now, 2.0, desc="voltage"),
        ]
    )
    client.put([Point("m", "e", clock.now, 3.0, units="mV")])
    [series] = client.get("m")[0].data
    assert (series.units, series.desc) == ("mV", "voltage")


def test_point_has_attributes_of_node_and_labels(client: AgentClient, clock: ManualClock) -> None:
    labels: dict[str, str | int | float | bool] = {
        "region": "theirs",
        "rack": 8,
        "node": "not theirs",
        "hot": True,
    }
    client.put(
        [Point("m", "e", clock.now, 1.0, entity_type="host", pod=Pod(name="p"), labels=labels)]
    )
    [attributes] = client.read(RAW).table["attributes"].to_pylist()
    assert list(json.loads(attributes)) == sorted(json.loads(attributes))
    assert json.loads(attributes) == {
        "entityID": "e",
        "entityType": "host",
        "node": "n1",
        "exported_node": "not theirs",
        "site": "n1",
        "region": "theirs",
        "rack": 8,
        "hot": True,
        "pod.name": "p",
    }


def test_future_point_becomes_row_at_its_time(client: AgentClient, clock: ManualClock) -> None:
    now = clock.now
    client.put([Point("m", "e", now + 60_000, 9.0), Point("m", "e", now, 1.0)])
    assert client.read(RAW).table["value"].to_pylist() == [1.0]
    assert client.info(RAW).frontier <= now
    [node] = client.get("m", latest=False)
    assert [v.value for v in node.data[0].values] == [1.0, 9.0]
    clock.now += 51_000
    eventually(lambda: client.read(RAW).table.num_rows == 2)
    assert client.read(RAW).table["value"].to_pylist() == [1.0, 9.0]
    [node] = client.get("m", latest=False)
    assert [v.value for v in node.data[0].values] == [1.0, 9.0]
    assert client.info(RAW).late == 0


def test_put_repeated_with_same_key_stores_nothing(client: AgentClient, clock: ManualClock) -> None:
    for _ in range(3):
        client.put([Point("m", "e", clock.now, 1.0)], idempotency_key="once")
    client.put([Point("m", "e", clock.now, 1.0)])
    assert client.read(RAW).table.num_rows == 2


def test_openapi_document_has_bodies(url: str) -> None:
    paths = httpx.get(f"{url}/openapi.json").json()["paths"]
    content = paths["/put"]["post"]["requestBody"]["content"]["application/json"]
    measurement = content["schema"]["properties"]["monitoring"]["items"]
    assert {"entityID", "metricID", "val", "timestamp"} == set(measurement["required"])
    assert content["example"]["monitoring"]
    assert "/streams/{name}" in paths


def test_requests_and_points_are_counted(client: AgentClient, url: str, clock: ManualClock) -> None:
    client.put([Point("m", "e", clock.now, 1.0)])
    text = httpx.get(f"{url}/metrics").text
    for name in ("points", "late_points", "future_points", "segments", "segment_bytes"):
        assert f"mistbow_agent_{name}_total" in text
    assert "mistbow_agent_put_seconds_bucket" in text
