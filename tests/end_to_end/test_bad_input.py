"""Bad input: answered by a clear 4xx or a defined result, never by a 500 or a stack trace."""

import json
from collections.abc import Callable

import httpx
import pytest

from mistbow.client.agent_model import Point
from mistbow.clock import system_clock
from tests.support.conditions import eventually
from tests.support.suite import Suite

pytestmark = pytest.mark.timeout(300)

_POINT = {"metricID": "m", "entityID": "e", "timestamp": 1, "val": 1}


def put(**changes: object) -> bytes:
    """Return a body of /put in which fields of the second point are changed (None: removed)."""
    point = {name: value for name, value in {**_POINT, **changes}.items() if value is not None}
    return json.dumps({"monitoring": [_POINT, point]}).encode()


BAD_PUTS: dict[str, bytes] = {
    "empty body": b"",
    "not json": b"monitoring=1",
    "cut json": b'{"monitoring": [',
    "a list": b"[]",
    "a number": b"7",
    "no monitoring": b"{}",
    "monitoring is null": b'{"monitoring": null}',
    "monitoring is an object": b'{"monitoring": {}}',
    "a point is a string": b'{"monitoring": ["cpu"]}',
    "a point is empty": b'{"monitoring": [{}]}',
    "no metric": put(metricID=None),
    "empty metric": put(metricID=""),
    "endless metric": put(metricID="m" * 100_000),
    "metric is a list": put(metricID=["m"]),
    "no value": put(val=None),
    "value is text": put(val="five"),
    "value is true": put(val=True),
    "value is a list": put(val=[1]),
    "value is a bare NaN": put(val=float("nan")),
    "value is a bare Infinity": put(val=float("inf")),
    "value is too large": put(val=1).replace(b'"val": 1}]', b'"val": 1e999}]'),
    "value is an endless integer": put(val=1).replace(
        b'"val": 1}]', b'"val": ' + b"9" * 5000 + b"}]"
    ),
    "no time": put(timestamp=None),
    "time is text": put(timestamp="2026-11-21"),
    "time is negative": put(timestamp=-1),
    "time is in microseconds of a far year": put(timestamp=10**18),
    "time is half a millisecond": put(timestamp=0.5),
    "pod is text": put(pod="p"),
    "labels are nested": put(labels={"a": {"b": 1}}),
    "deep nesting": b'{"monitoring": ' + b"[" * 50_000 + b"]" * 50_000 + b"}",
    "broken UTF-8": b'{"monitoring": [{"metricID": "\xff"}]}',
    "lone surrogate": put(metricID="m").replace(b'"m"}]', b'"m"}]').replace(b'"e"', b'"\\ud800"'),
    "ten megabytes": b'{"monitoring": "' + b"x" * 10_000_000 + b'"}',
}
BAD_GETS: dict[str, bytes] = {
    "not json": b"metric",
    "from is text": b'{"from": "today"}',
    "from is after to": b'{"from": 2, "to": 1}',
    "metric is an object": b'{"metricID": {"name": "m"}}',
    "latest is a word": b'{"latest": "yes"}',
}
BAD_QUERIES: dict[str, str] = {
    "empty": "",
    "only a comment": "-- nothing",
    "no COMPUTE": "a = AVG(cpu, 5 SECONDS) EVERY 5 SECONDS",
    "no EVERY and no window": "a = COMPUTE AVG(cpu)",
    "unknown function": "a = COMPUTE AVERAG(cpu, 5 SECONDS) EVERY 5 SECONDS",
    "unit missing": "a = COMPUTE AVG(cpu, 5) EVERY 5 SECONDS",
    "parenthesis open": "a = COMPUTE AVG(cpu, 5 SECONDS EVERY 5 SECONDS",
    "twice the same name": "a = COMPUTE SUM(x) EVERY 5 s; a = COMPUTE SUM(y) EVERY 5 s",
    "no aggregate": "a = COMPUTE 1 + 1 EVERY 5 SECONDS",
    "text against a number": 'a = COMPUTE AVG(x, 5 s) WHEN region > "north" EVERY 5 s',
    "window of no length": "a = COMPUTE AVG(x, 0 SECONDS) EVERY 5 SECONDS",
    "a thousandth of a window": "a = COMPUTE AVG(x, 1 DAYS) EVERY 1 SECONDS",
    "deep nesting": "a = COMPUTE " + "(" * 5000 + "SUM(x)" + ")" * 5000 + " EVERY 5 s",
    "huge number": "a = COMPUTE SUM(x, 5 s) * 1e999 EVERY 5 SECONDS",
    "SQL": "SELECT avg(cpu) FROM metrics GROUP BY host",
    "binary": "a = \x00\x01 COMPUTE",
}


def assert_refused(answer: httpx.Response) -> None:
    assert 400 <= answer.status_code < 500, answer.text[:300]
    error = answer.json()["error"]
    assert error["message"]
    assert "Traceback" not in answer.text
    assert 'File "' not in answer.text


@pytest.mark.parametrize("body", BAD_PUTS.values(), ids=BAD_PUTS.keys())
def test_bad_points_are_refused_whole(suite: Suite, body: bytes) -> None:
    assert_refused(httpx.post(suite.url("agent") + "/put", content=body, timeout=30))
    assert suite.agent.get(metric="m") == [] or not suite.agent.get(metric="m")[0].data


@pytest.mark.parametrize("body", BAD_GETS.values(), ids=BAD_GETS.keys())
def test_bad_questions_to_the_agent_are_refused(suite: Suite, body: bytes) -> None:
    assert_refused(httpx.post(suite.url("agent") + "/get", content=body))


@pytest.mark.parametrize("query", BAD_QUERIES.values(), ids=BAD_QUERIES.keys())
def test_bad_queries_are_refused_with_place_and_hint(suite: Suite, query: str) -> None:
    root = suite.url("enabler") + "/api/insights"
    answer = httpx.post(root, json={"queries": query}, timeout=30)
    assert_refused(answer)
    for problem in answer.json()["error"].get("details", []):
        if "line" in problem:
            assert problem["line"] >= 1
            assert problem["message"]
    assert not httpx.post(root + "/check", json={"queries": query}, timeout=30).is_server_error


@pytest.mark.parametrize(
    "send",
    [
        lambda root: httpx.post(root, content=b"{"),
        lambda root: httpx.post(root, json=["a"]),
        lambda root: httpx.post(root, json={"queries": 5}),
        lambda root: httpx.post(root, content=b'{"queries": "\\ud800 = COMPUTE SUM(x)"}'),
        lambda root: httpx.post(root, content=b'{"queries": 1, "\\ud800": 1}'),
        lambda root: httpx.post(root, json={"query": "a = COMPUTE SUM(x) EVERY 5 s"}),
        lambda root: httpx.post(root, content=b"\xff", headers={"Content-Type": "text/plain"}),
        lambda root: httpx.post(root, content=b"x", headers={"Content-Type": "image/png"}),
        lambda root: httpx.post(root, json={"queries": "x" * 10_000_000}, timeout=60),
        lambda root: httpx.put(
            root + "/d-nowhere", json={"queries": "a = COMPUTE SUM(x) EVERY 5 s"}
        ),
        lambda root: httpx.get(root + "/d-nowhere"),
        lambda root: httpx.get(root + "/d-nowhere/results"),
        lambda root: httpx.get(root + "/d-nowhere/results/follow"),
        lambda root: httpx.delete(root + "/d-nowhere"),
        lambda root: httpx.patch(root),
    ],
)
def test_bad_requests_to_the_enabler_are_refused(
    suite: Suite, send: Callable[[str], httpx.Response]
) -> None:
    assert_refused(send(suite.url("enabler") + "/api/insights"))


def test_unusual_but_valid_input_has_a_defined_result(suite: Suite) -> None:
    now = system_clock()
    none = httpx.post(suite.url("agent") + "/put", json={"monitoring": []})
    assert none.json()["result"] == "OK"
    odd = {**_POINT, "metricID": "odd", "timestamp": 2611318068000, "colour": "unknown field"}
    assert httpx.post(suite.url("agent") + "/put", json={"monitoring": [odd]}).is_success
    (node,) = suite.agent.get(metric="odd", latest=False)
    assert [value.ts for value in node.data[0].values] == [2611318068000]

    accepted = suite.enabler.submit(
        "nothing = COMPUTE SUM(odd, 5 s) / 0 EVERY 1 s; all = COMPUTE COUNT(odd, 5 s) EVERY 1 s;"
        "never = COMPUTE AVG(never.seen.metric, 5 s) EVERY 1 s"
    )
    assert any("never.seen.metric" in warning.message for warning in accepted.warnings)

    def counted() -> bool:
        suite.agent.put([Point(metric="odd", entity="e", ts=system_clock(), value=1)])
        results = suite.enabler.results(accepted.deployment_id).results
        assert {result.insight for result in results} <= {"all"}
        return any(result.ts > now for result in results)

    eventually(counted, timeout=90, what="the count of what is odd")
    suite.enabler.delete(accepted.deployment_id)
