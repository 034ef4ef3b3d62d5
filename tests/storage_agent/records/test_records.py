"""Records by key and time: put, latest, past, scans, deletion, expiry, and restart."""

from typing import Any

import httpx
import pytest

from storage_agent.http import decode
from storage_agent.settings import AgentSettings
from tests.storage_agent.conftest import ManualClock
from tests.storage_agent.records.conftest import NOW, Post, item, posting, records_of
from tests.support.agents import running_agent
from tests.support.conditions import eventually

VALUES: list[Any] = [
    None,
    True,
    0,
    -1.5,
    "",
    "é\n",
    [],
    [1, [2]],
    {},
    {"a": {"b": None}},
    "x" * 9999,
]


def test_any_json_value_is_returned_unchanged(post: Post) -> None:
    items = [item(f"any-{number:02}", value) for number, value in enumerate(VALUES)]
    post("/app/put", {"application": items})
    keys = [each["key"] for each in items]
    found = records_of(post("/app/get", {"key": keys}))
    assert found == {key: [(NOW, value)] for key, value in zip(keys, VALUES, strict=True)}


def test_latest_record_is_of_greatest_time_and_last_put(post: Post) -> None:
    for ts, val in [(NOW, 1), (NOW + 5, 2), (NOW - 5, 3), (NOW + 5, 4)]:
        post("/analytics/put", {"analytics": [item("back", val, ts)]})
    assert records_of(post("/analytics/get", {"key": "back"}), "analytics") == {
        "back": [(NOW + 5, 4)]
    }
    past = records_of(post("/analytics/get", {"key": ["back"], "from": NOW - 5}), "analytics")
    assert past == {"back": [(NOW - 5, 3), (NOW, 1), (NOW + 5, 4)]}
    some = {"key": ["back"], "from": NOW - 4, "to": NOW}
    assert records_of(post("/analytics/get", some), "analytics") == {"back": [(NOW, 1)]}
    # Another kind is another room.
    assert post("/app/get", {"key": ["back"]}) == {"application": []}


def test_scan_is_sorted_by_key(post: Post) -> None:
    post("/app/put", {"app": [item(f"scan/{n}", n) for n in (5, 1, 3)]})
    scan = {"start": "scan/2", "limit": 2}
    assert list(records_of(post("/app/get", scan))) == ["scan/3", "scan/5"]
    # Once there is an order, what is new finds its place in it.
    post("/app/put", {"app": [item("scan/4", 4)]})
    assert list(records_of(post("/app/get", scan))) == ["scan/3", "scan/4"]
    assert list(records_of(post("/app/get", {**scan, "from": 0}))) == ["scan/3", "scan/4"]


def test_put_is_atomic_and_idempotent(url: str, post: Post) -> None:
    bad = {"application": [item("whole", 1), {"key": "whole-2", "val": 1}]}
    refused = httpx.post(f"{url}/app/put", json=bad)
    assert refused.status_code == 400
    assert refused.json()["error"]["message"].startswith("application[1]")
    assert records_of(post("/app/get", {"key": ["whole"]})) == {}
    for val, status in ((1, 200), (1, 200), (2, 422)):
        again = {"application": [item("again", val)]}
        repeated = httpx.post(f"{url}/app/put", json=again, headers={"Idempotency-Key": "k1"})
        assert repeated.status_code == status
    assert records_of(post("/app/get", {"key": ["again"]})) == {"again": [(NOW, 1)]}


def record(val: str) -> bytes:
    return b'{"app":[{"key":"k","timestamp":1,"val":%b}]}' % val.encode()


BAD: list[tuple[str, bytes, str]] = [
    ("/app/put", b"{}", "application: the field is missing"),
    ("/app/put", b'{"app":[],"application":[]}', "app: the field repeats application"),
    ("/app/put", b'{"app":[{"key":"","val":1,"timestamp":1}]}', "app[0].key"),
    ("/app/put", b'{"app":[{"key":"k","val":NaN,"timestamp":1}]}', "app[0].val"),
    ("/app/put", b'{"app":[{"key":"k","val":"\xff","timestamp":1}]}', "application[0].val"),
    ("/app/put", b'{"app":[{"key":"k","val":1,"timestamp":1.5}]}', "application[0].timestamp"),
    ("/app/put", b'{"app":[{"key":"k","val":' + b"[" * 100_000, "deeply"),
    ("/app/put", record("[" * 33 + "]" * 33), "application[0].val: the value is nested more"),
    (
        "/app/put",
        record('{"a":[' * 400 + '"]"' + "]}" * 400),
        "application[0].val: the value is nested",
    ),
    ("/app/put", record("1e999"), "application[0].val: Number out of range"),
    ("/app/put", record('{"a":[1,{"b":-1e400}]}'), "application[0].val.a[1].b: Number out of"),
    ("/app/put", record('{"a":1,"a":2}'), 'application[0].val: an object repeats the key "a"'),
    (
        "/app/put",
        record('[{"a":1},{"b" :{"\\u0061":' + "9" * 99 + ',"a":1e1}}]'),
        'application[0].val: an object repeats the key "a"',
    ),
    ("/app/put", record('["\\ud800"]'), "app[0].val[0]: the text is not valid Unicode"),
    ("/app/put", b'{"app":[{"key":"k","val":1,"timestamp":1,"schema":"no"}]}', "no schema no"),
    (
        "/analytics/put",
        b'{"analytics":[{"key":"k","val":[1e999],"timestamp":1}]}',
        "analytics[0].val[0]: Number out of range",
    ),
    ("/analytics/put", b'{"analytics":null}', "analytics"),
    ("/app/get", b'{"limit":0}', "limit"),
    ("/app/get", b'{"from":2,"to":1}', "from (2) is after to (1)"),
    ("/routing/put", b'{"routing":[{"routes":[{}]}]}', "routing[0].routes[0]"),
    ("/routing/put", b'{"routing":[{"routes":[{"destination":"x"}]}]}', "routes[0]: destination"),
    (
        "/routing/put",
        b'{"routing":[{"routes":[{"destination":"::/129"}]}]}',
        "expected a network such as 10.0.0.0/8, an address, or 'default'",
    ),
]


@pytest.mark.parametrize(("path", "body", "what"), BAD, ids=lambda value: str(value)[:50])
def test_invalid_body_is_rejected_with_reason(url: str, path: str, body: bytes, what: str) -> None:
    response = httpx.post(f"{url}{path}", content=body)
    assert response.status_code == 400, response.text
    assert what in response.json()["error"]["message"]


def test_deep_record_of_earlier_version_is_read(
    url: str, post: Post, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as earlier:
        earlier.setattr(decode, "MAX_DEPTH", 10_000)
        deep = next(
            val
            for depth in range(1000, 900, -1)
            if httpx.post(
                f"{url}/app/put", content=record(val := "[" * depth + "]" * depth)
            ).is_success
        )
    for body in ({"key": "k"}, {"key": "k", "nodes": []}):
        answer = httpx.post(f"{url}/app/get", json=body)
        assert answer.status_code == 200
        assert deep in answer.text
    # Other tests read all keys, by a parser that takes less.
    assert delete(url, "/app", {"key": "k"}).status_code == 200


def delete(url: str, path: str, body: object) -> httpx.Response:
    return httpx.request("DELETE", f"{url}{path}", json=body)


def test_deletion_makes_the_record_before_the_latest(url: str, post: Post) -> None:
    items = [item(key, ts, NOW + ts) for key in ("del-1", "del-2") for ts in (1, 2, 3)]
    post("/app/put", {"application": items})
    assert post("/app/get", {"start": "del", "limit": 2})["application"]
    some = {"key": ["del-1"], "from": NOW + 2, "to": NOW + 3}
    assert delete(url, "/app", some).json() == {"result": "OK", "message": "deleted"}
    delete(url, "/app", {"key": "del-2"})
    asked = {"key": ["del-1", "del-2"]}
    assert records_of(post("/app/get", asked)) == {"del-1": [(NOW + 1, 1)]}
    assert records_of(post("/app/get", {**asked, "from": 0})) == {"del-1": [(NOW + 1, 1)]}
    # What was deleted can be put again, also for an earlier time.
    post("/app/put", {"application": [item("del-2", 0, NOW)]})
    assert records_of(post("/app/get", asked)) == {"del-1": [(NOW + 1, 1)], "del-2": [(NOW, 0)]}
    assert list(records_of(post("/app/get", {"start": "del", "limit": 2}))) == ["del-1", "del-2"]
    none = ({}, {"key": []}, {"key": ["k"], "from": 2, "to": 1})
    # A deletion must not ignore a field that restricts a read.
    more = ({"nodes": []}, {"latest": True}, {"limit": 1}, {"form": NOW})
    for body in (*none, *({"key": ["del-1"], **each} for each in more)):
        assert delete(url, "/app", body).status_code == 400
        assert delete(url, "/analytics", body).status_code == 400
    assert records_of(post("/app/get", {"key": "del-1"})) == {"del-1": [(NOW + 1, 1)]}


def test_expired_record_is_not_returned(records_settings: AgentSettings) -> None:
    clock = ManualClock(NOW)
    with running_agent(records_settings, clock) as url:
        post = posting(url)
        retention = {"streams": {"records/analytics": 10_000}}
        assert httpx.put(f"{url}/config", json=retention).status_code == 200
        post("/analytics/put", {"analytics": [item("old", 1, NOW + 9), item("older", 1)]})
        clock.now += 6000
        post("/analytics/put", {"analytics": [item("old", 2)]})
        asked = {"key": ["old", "older"]}
        assert records_of(post("/analytics/get", asked), "analytics") == {
            "old": [(NOW + 9, 1)],
            "older": [(NOW, 1)],
        }
        clock.now += 6000
        assert records_of(post("/analytics/get", {"key": ["older"]}), "analytics") == {}
        # What came later is found again, although its time is earlier.
        left = {"old": [(NOW, 2)]}
        eventually(lambda: records_of(post("/analytics/get", asked), "analytics") == left)


def test_restart_recovers_all_records(url: str, records_settings: AgentSettings) -> None:
    # Comes last: the other agent takes the records over.
    post = posting(url)
    post("/app/put", {"app": [item("kept", 1), item("kept", 2, NOW + 1)]})
    routes = [{"destination": to} for to in ("10.0.0.0/8", "10.1.2.3/8", "fd00::1", "default")]
    table = {"routes": routes, "node": "far", "timestamp": NOW}
    post("/routing/put", {"routing": [table]})
    before = post("/app/get", {})
    with running_agent(records_settings) as again:
        assert posting(again)("/app/get", {}) == before
        posting(again)("/app/put", {"app": [item("kept", 0), item("kept", 3, NOW + 2)]})
        assert records_of(posting(again)("/app/get", {"key": "kept"})) == {"kept": [(NOW + 2, 3)]}
        value = {"timestamp": NOW, "routes": table["routes"]}
        assert posting(again)("/routing/get", {}) == {
            "routing": [{"node": "far", "values": [value]}]
        }
