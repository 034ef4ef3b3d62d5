"""Invalid bodies of /put and /get: answered by a 4xx with a reason, and not stored."""

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from ignite_server.server import IgniteServer
from storage_agent.settings import AgentSettings
from tests.support.agents import running_agent
from tests.support.ignite import empty

NOW = 1_795_262_400_000


@pytest.fixture(scope="module")
def url(ignite_server: IgniteServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    empty(ignite_server)
    settings = AgentSettings(
        home=tmp_path_factory.mktemp("home"), ignite_port=ignite_server.port, max_points=50
    )
    with running_agent(settings) as url:
        yield url


def stored(url: str) -> list[Any]:
    answer = httpx.post(f"{url}/get", json={"latest": False}).json()
    return [series for node in answer["monitoring"] for series in node["data"]]


def item(**fields: object) -> dict[str, object]:
    return {"entityID": "e", "metricID": "m", "val": 1, "timestamp": NOW, **fields}


BAD_ITEMS: list[tuple[dict[str, object], str]] = [
    ({"val": None}, "monitoring[1].val"),
    ({"val": "1 V"}, "monitoring[1].val"),
    ({"val": True}, "monitoring[1].val"),
    ({"val": [1]}, "monitoring[1].val"),
    ({"val": 10**400}, "monitoring[1].val"),
    ({"timestamp": -1}, "monitoring[1].timestamp"),
    ({"timestamp": 253402300800000}, "monitoring[1].timestamp"),
    ({"timestamp": 1.5}, "monitoring[1].timestamp"),
    ({"timestamp": "now"}, "monitoring[1].timestamp"),
    ({"timestamp": None}, "monitoring[1].timestamp"),
    ({"entityID": ""}, "monitoring[1].entityID"),
    ({"entityID": "x" * 513}, "monitoring[1].entityID"),
    ({"metricID": [5]}, "monitoring[1].metricID"),
    ({"pod": "p"}, "monitoring[1].pod"),
    ({"labels": {"a": [1]}}, "monitoring[1].labels"),
    ({"labels": {"a": 2**63}}, "monitoring[1].labels"),
    ({"labels": {f"l{number}": 1 for number in range(129)}}, "monitoring[1].labels"),
    ({"labels": {"a": "x" * 4096, "b": "x" * 4096}}, "monitoring[1]: the attributes"),
    ({"minVal": "low"}, "monitoring[1].minVal"),
    ({"higherIsBetter": 1}, "monitoring[1].higherIsBetter"),
]


@pytest.mark.parametrize(("fields", "where"), BAD_ITEMS, ids=lambda value: str(value)[:60])
def test_invalid_point_is_named_and_nothing_is_stored(
    url: str, fields: dict[str, object], where: str
) -> None:
    response = httpx.post(f"{url}/put", json={"monitoring": [item(), item(**fields)]})
    assert response.status_code == 400
    error = response.json()["error"]
    assert error["code"] == "invalid_request"
    assert error["message"].startswith(where)
    assert stored(url) == []


BAD_BODIES: list[tuple[bytes, str]] = [
    (b"", ""),
    (b"null", "object"),
    (b"[]", "object"),
    (b"{}", "monitoring"),
    (b'{"monitoring": null}', "monitoring"),
    (b'{"monitoring": {}}', "monitoring"),
    (b'{"monitoring": [5]}', "monitoring[0]"),
    (b'{"monitoring": [{}]}', "monitoring[0]"),
    (b'{"monitoring": []} x', "trailing"),
    (b'{"monitoring": [{"entityID":"e","metricID":"m","timestamp":1,"val":NaN}]}', "[0].val"),
    (b'{"monitoring": [{"entityID":"e","metricID":"m","timestamp":1,"val":-Infinity}]}', "[0].val"),
    (b'{"monitoring": [{"entityID":"e","metricID":"m","timestamp":1,"val":1e999}]}', "[0].val"),
    (b'{"monitoring": [{"entityID":"\xff","metricID":"m","timestamp":1,"val":1}]}', "[0].entityID"),
    (
        b'{"monitoring": [{"entityID":"\\ud800","metricID":"m","timestamp":1,"val":1}]}',
        "[0].entityID",
    ),
    (b'{"monitoring": [{"x": ' + b"[" * 100_000, "deeply"),
    (b"\x00\x01", ""),
]


@pytest.mark.parametrize(("body", "what"), BAD_BODIES, ids=lambda value: str(value)[:60])
def test_invalid_body_is_rejected_with_reason(url: str, body: bytes, what: str) -> None:
    response = httpx.post(f"{url}/put", content=body)
    assert response.status_code == 400
    assert what in response.json()["error"]["message"]


@pytest.mark.parametrize(
    "body",
    [
        {"from": 2, "to": 1},
        {"from": "yesterday"},
        {"from": 1.5},
        {"metricID": {"is": 5}},
        {"metricID": [[5]]},
        {"entityID": [str(number) for number in range(10_001)]},
        {"latest": "yes"},
        {"nodes": {}},
        [],
    ],
    ids=lambda value: str(value)[:60],
)
def test_invalid_get_is_rejected(url: str, body: object) -> None:
    assert httpx.post(f"{url}/get", json=body).status_code == 400


def test_body_over_limits_is_rejected(url: str) -> None:
    assert httpx.post(f"{url}/put", content=b" " * (8 * 2**20 + 1)).status_code == 413
    response = httpx.post(f"{url}/put", json={"monitoring": [item()] * 51})
    assert response.status_code == 413
    assert response.json()["error"]["hint"]
    assert stored(url) == []


@pytest.mark.parametrize("key", ["", "x" * 201])
def test_invalid_idempotency_key_is_rejected(url: str, key: str) -> None:
    headers = {"Idempotency-Key": key}
    response = httpx.post(f"{url}/put", json={"monitoring": [item()]}, headers=headers)
    assert response.status_code == 400
    assert stored(url) == []


def test_empty_body_unknown_fields_and_integral_floats_are_accepted(url: str) -> None:
    empty = httpx.post(f"{url}/put", json={"monitoring": []})
    assert empty.json() == {"result": "OK", "message": "0 points stored"}
    odd = item(timestamp=float(NOW), colour="red", pod=None, labels={})
    body = {"monitoring": [odd], "by": "hand"}
    assert httpx.post(f"{url}/put", json=body).status_code == 200
    [series] = stored(url)
    assert series["values"] == [{"timestamp": NOW, "val": 1.0}]


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("/config", {"max_bytes": 2**30}, 200),
        ("/config", {"max_bytes": 2**30, "most_bytes": 2**30}, 400),
        ("/streams/raw/hold", {"holder": "h", "retain_ms": 5000, "for_ms": 5000}, 204),
        ("/streams/raw/hold", {"holder": "h", "retain_ms": "long", "for_ms": 5000}, 400),
        ("/replication", {"target": "nowhere", "offload": True, "move": True}, 400),
    ],
)
def test_fields_have_names_of_the_glossary_too(
    url: str, path: str, body: object, status: int
) -> None:
    assert httpx.put(f"{url}{path}", json=body).status_code == status
    if status == 200:
        assert httpx.get(f"{url}/config").json()["most_bytes"] == 2**30


@pytest.mark.parametrize("parameters", ["sit=edge-1", "dry_run", "site="])
def test_configuration_of_an_unclear_site_is_not_changed(url: str, parameters: str) -> None:
    before = httpx.get(f"{url}/config").json()
    answer = httpx.put(f"{url}/config?{parameters}", json={"retention_ms": 1000})
    assert answer.status_code == 400
    assert "nothing was done" in answer.json()["error"]["message"]
    assert httpx.get(f"{url}/config").json() == before


@pytest.mark.parametrize("query", ["sit=edge-1", "dry_run", "site="])
def test_writes_for_an_unclear_site_store_nothing(url: str, query: str) -> None:
    before = stored(url)
    writes = [
        ("POST", "/put", {"monitoring": [item()]}),
        ("POST", "/analytics/put", {"analytics": []}),
        ("POST", "/app/put", {"app": []}),
        ("POST", "/routing/put", {"routing": []}),
        ("PUT", "/app/schemas/s", {}),
        ("PUT", "/streams/s", {}),
        ("POST", "/streams/s", {}),
        ("PATCH", "/streams/s", {}),
        ("POST", "/streams/s/claim", {}),
        ("PUT", "/streams/s/hold", {}),
    ]
    for method, path, body in writes:
        answer = httpx.request(method, f"{url}{path}?{query}", json=body)
        assert answer.status_code == 400, path
        assert "nothing was done" in answer.json()["error"]["message"]
    assert stored(url) == before
