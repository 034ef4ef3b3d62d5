"""The REST interface of RAINBOW's storage: every request, and the exact shape of its answer."""

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from ignite_server.server import IgniteServer
from storage_agent.settings import AgentSettings
from tests.storage_agent.conftest import ManualClock
from tests.support.agents import running_agent
from tests.support.ignite import empty

NOW = 1_611_318_068_003
OK = {"result": "OK"}
CPU: dict[str, Any] = {
    "entityID": "ent1",
    "entityType": "fog",
    "metricID": "metr1",
    "name": "cpu",
    "units": "percent",
    "desc": "CPU",
    "group": "group1",
    "minVal": 5,
    "maxVal": 10,
    "higherIsBetter": True,
    "pod": {"uuid": "123", "name": "kube", "namespace": "default"},
    "container": {"id": "345", "name": "web"},
}
BARE: dict[str, Any] = {"entityID": "ent2", "metricID": "metr2"}
POINTS = [
    {**CPU, "val": 6, "timestamp": NOW},
    {**CPU, "val": 8, "timestamp": NOW + 1000},
    {**BARE, "val": -1.5, "timestamp": NOW},
]


@pytest.fixture(scope="module")
def url(ignite_server: IgniteServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    empty(ignite_server)
    settings = AgentSettings(
        home=tmp_path_factory.mktemp("home"),
        node="server-1",
        ignite_port=ignite_server.port,
        collect_routes=False,
    )
    with running_agent(settings, ManualClock(NOW + 60_000)) as url:
        yield url


def ask(url: str, path: str, body: object, method: str = "POST") -> Any:
    response = httpx.request(method, f"{url}{path}", json=body)
    assert response.status_code == 200, response.text
    assert response.headers["content-type"] == "application/json"
    return response.json()


@pytest.fixture(scope="module")
def stored(url: str) -> str:
    answer = ask(url, "/put", {"monitoring": POINTS})
    assert answer == {**OK, "message": "3 points stored"}
    return url


def data(*values: tuple[dict[str, Any], list[tuple[int, float]]]) -> dict[str, Any]:
    series = [
        {**metadata, "values": [{"timestamp": ts, "val": val} for ts, val in points]}
        for metadata, points in values
    ]
    return {"monitoring": [{"node": "server-1", "data": series}]}


LATEST = data((CPU, [(NOW + 1000, 8.0)]), (BARE, [(NOW, -1.5)]))
OF_CPU = data((CPU, [(NOW + 1000, 8.0)]))


@pytest.mark.parametrize(
    ("body", "answer"),
    [
        ({}, LATEST),
        ({"latest": True, "unknown": {"is": "ignored"}}, LATEST),
        ({"metricID": ["metr1"]}, OF_CPU),
        ({"entityID": ["ent1"]}, OF_CPU),
        ({"entityType": ["fog", "cloud"]}, OF_CPU),
        ({"groupName": ["group1"]}, OF_CPU),
        ({"podName": ["kube"]}, OF_CPU),
        ({"podNamespace": ["default"]}, OF_CPU),
        ({"containerName": ["web"]}, OF_CPU),
        ({"metricID": ["none"]}, data()),
        ({"nodes": []}, LATEST),
        ({"nodes": ["server-1"]}, LATEST),
        (
            {"metricID": ["metr1"], "from": NOW, "to": NOW + 1000},
            data((CPU, [(NOW, 6.0), (NOW + 1000, 8.0)])),
        ),
        ({"metricID": ["metr1"], "from": NOW + 1}, OF_CPU),
        ({"to": NOW - 1}, data()),
        (
            {"latest": False},
            data((CPU, [(NOW, 6.0), (NOW + 1000, 8.0)]), (BARE, [(NOW, -1.5)])),
        ),
        (
            {"nodes": ["server-9"]},
            {
                "monitoring": [],
                "missing": [{"node": "server-9", "reason": "no node or site has this name"}],
            },
        ),
    ],
    ids=str,
)
def test_get(stored: str, body: object, answer: object) -> None:
    assert ask(stored, "/get", body) == answer


@pytest.mark.parametrize(
    ("body", "value"),
    [
        ({"agg": "sum"}, 6.5),
        ({"agg": "sum", "from": NOW, "to": NOW + 1000}, 12.5),
        ({"agg": "max", "from": NOW}, 8.0),
        ({"agg": "min", "from": NOW, "nodes": []}, -1.5),
        ({"agg": "avg", "from": NOW, "metricID": ["metr1"], "nodes": ["server-1"]}, 7.0),
        ({"agg": "avg", "metricID": ["none"]}, None),
        ({"agg": "sum", "to": NOW - 1}, None),
    ],
    ids=str,
)
def test_query(stored: str, body: object, value: float | None) -> None:
    assert ask(stored, "/query", body) == {"value": value}


HOST = {"node": "server-1"}


@pytest.mark.parametrize(
    ("body", "metrics"),
    [
        ({}, [{**HOST, **CPU}, {**HOST, **BARE}]),
        ({"metricID": ["metr1"], "nodes": []}, [{**HOST, **CPU}]),
        (
            {"fields": ["units", "groupless", "podName", "podUUID", "containerName"]},
            [
                {
                    **HOST,
                    "metricID": "metr1",
                    "entityID": "ent1",
                    "units": "percent",
                    "pod": {"podName": "kube", "podUUID": "123"},
                    "container": {"containerName": "web"},
                },
                {**HOST, "metricID": "metr2", "entityID": "ent2", "pod": {}, "container": {}},
            ],
        ),
        (
            {"fields": ["groupName", "minVal"], "metricID": "metr1"},
            [{**HOST, "metricID": "metr1", "entityID": "ent1", "groupName": "group1", "minVal": 5}],
        ),
    ],
    ids=str,
)
def test_list(stored: str, body: object, metrics: object) -> None:
    assert ask(stored, "/list", body) == {"metric": metrics}


def test_nodes(stored: str) -> None:
    head = {"nodes": [{"hostname": "server-1", "cluster_head": True}]}
    assert ask(stored, "/nodes", {"unknown": 1}) == head
    assert httpx.post(f"{stored}/nodes").json() == head


@pytest.mark.parametrize(
    ("path", "word", "put"),
    [
        ("/analytics", "analytics", "analytics"),
        ("/app", "application", "application"),
        ("/app", "application", "app"),
    ],
)
def test_analytics_and_application_data(url: str, path: str, word: str, put: str) -> None:
    one, two = f"{put}-1", f"{put}-2"
    items = [
        {"key": one, "val": 1.5, "timestamp": NOW},
        {"key": one, "val": "text", "timestamp": NOW + 1},
        {"key": two, "val": {"any": ["JSON", None]}, "timestamp": NOW},
    ]
    answer = ask(url, f"{path}/put", {put: items})
    assert answer == {**OK, "message": "3 records stored"}

    def keyed(*found: tuple[str, list[int]]) -> dict[str, Any]:
        return {
            word: [
                {
                    "key": key,
                    "values": [
                        {"timestamp": items[at]["timestamp"], "val": items[at]["val"]} for at in ats
                    ],
                }
                for key, ats in found
            ]
        }

    both = {"key": [one, two]}
    assert ask(url, f"{path}/get", both) == keyed((one, [1]), (two, [2]))
    assert ask(url, f"{path}/get", {"key": [one, "none"]}) == keyed((one, [1]))
    assert ask(url, f"{path}/get", {**both, "nodes": []}) == keyed((one, [1]), (two, [2]))
    past = {**both, "from": NOW, "to": NOW + 1}
    assert ask(url, f"{path}/get", past) == keyed((one, [0, 1]), (two, [2]))
    assert ask(url, f"{path}/get", {**past, "to": NOW}) == keyed((one, [0]), (two, [2]))
    assert {one, two} <= {each["key"] for each in ask(url, f"{path}/get", {})[word]}
    answer = ask(url, path, {"key": [one]}, method="DELETE")
    assert answer == {**OK, "message": "deleted"}
    assert ask(url, f"{path}/get", past) == keyed((two, [2]))


def test_routing(url: str) -> None:
    route = {"destination": "0.0.0.0/0", "gateway": "10.0.0.1", "interface": "eth0", "metric": 1}
    bare = {"destination": "fd00::/8"}
    tables = [{"routes": [route]}, {"node": "far", "routes": [bare], "timestamp": NOW}]
    assert ask(url, "/routing/put", {"routing": tables}) == {**OK, "message": "2 tables stored"}
    far = {"node": "far", "values": [{"timestamp": NOW, "routes": [bare]}]}
    own = {"node": "server-1", "values": [{"timestamp": NOW + 60_000, "routes": [route]}]}
    assert ask(url, "/routing/get", {}) == {"routing": [far, own]}
    assert ask(url, "/routing/get", {"nodes": []}) == {"routing": [far, own]}
    assert ask(url, "/routing/get", {"nodes": ["far"]}) == {"routing": [far]}
    assert ask(url, "/routing/get", {"nodes": ["server-1"]}) == {"routing": [own]}
    assert ask(url, "/routing/get", {"nodes": ["none"]}) == {
        "routing": [],
        "missing": [{"node": "none", "reason": "no agent has a routing table of this node"}],
    }


def test_errors_have_one_form(url: str) -> None:
    response = httpx.post(f"{url}/query", json={"agg": "median"})
    assert response.status_code == 400
    assert response.json() == {
        "error": {
            "code": "invalid_request",
            "message": "agg: Invalid enum value 'median'; it must be one of avg, max, min, sum",
            "hint": "The service's /docs shows what this request takes.",
        },
        "result": "ERROR",
        "message": "agg: Invalid enum value 'median'; it must be one of avg, max, min, sum",
    }


def test_delete_removes_points(url: str) -> None:
    gone = {**BARE, "metricID": "gone"}
    points = [{**gone, "val": val, "timestamp": NOW + val} for val in range(3)]
    ask(url, "/put", {"monitoring": points})
    answer = ask(url, "/monitoring", {"metricID": ["gone"], "from": NOW + 1}, method="DELETE")
    assert answer == {
        **OK,
        "message": "2 points of 1 series deleted",
        "points": 2,
        "series_count": 1,
        "series": [{"metricID": "gone", "entityID": "ent2", "points": 2}],
    }
    assert ask(url, "/get", {"metricID": ["gone"]}) == data((gone, [(NOW, 0.0)]))
    ask(url, "/monitoring", {"metricID": ["gone"]}, method="DELETE")
    assert ask(url, "/get", {"metricID": ["gone"], "from": 0}) == data()
    assert ask(url, "/list", {"metricID": ["gone"]}) == {"metric": []}
    for body in ({}, {"from": 0}, {"metricID": []}, {"metricID": ["a"], "nodes": []}):
        assert httpx.request("DELETE", f"{url}/monitoring", json=body).status_code == 400
    latest = {"metricID": ["a"], "latest": True}
    refused = httpx.request("DELETE", f"{url}/monitoring", json=latest)
    assert (refused.status_code, "latest" in refused.text) == (400, True)
