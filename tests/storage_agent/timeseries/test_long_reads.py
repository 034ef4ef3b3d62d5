"""The work of the event loop during reads of many series, counted in lines of Python.

The loop must not pass over all series at once. The count does not depend on the speed of the
machine: slices of work are measured by a clock that moves at each look.
"""

import asyncio
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from types import FrameType
from typing import Any

import httpx
import msgspec
import pyarrow as pa
import pytest

from mistbow.client.agent import AgentClient
from mistbow.client.agent_model import Point
from mistbow.runtime import slices
from storage_agent.http.accept import ARROW, LINES
from storage_agent.settings import AgentSettings
from storage_agent.timeseries import aggregation
from storage_agent.timeseries import points as points_module
from storage_agent.timeseries.aggregation import AggregateState
from tests.storage_agent.conftest import ManualClock
from tests.support.agents import running_agent
from tests.support.conditions import eventually

_SERIES = 20_000
_MAX_LINES = 15_000
"""The maximum number of lines that one callback of the event loop may execute."""

_ALL = '{__name__=~".+"}'
_SQL = "SELECT metric, count(*), sum(value) FROM {} GROUP BY metric"


class StepClock:
    """A clock (s) that moves by ``step_ms`` whenever it is read."""

    def __init__(self, step_ms: int = 1) -> None:
        self._now = 0
        self._step = step_ms

    def perf_counter(self) -> float:
        self._now += self._step
        return self._now / 1000


class LineCounter:
    """Counts the lines that each callback of the event loop executes, in threads started later.

    ``most``: the greatest count since ``counting`` began. ``where``: the functions that executed
    most of these lines, with their counts.
    """

    def __init__(self) -> None:
        self.most = 0
        self.where: list[tuple[str, int]] = []
        self._lines: Counter[str] = Counter()
        self._counts = False

    @contextmanager
    def counting(self) -> Iterator[None]:
        self.most = 0
        self._lines.clear()
        self._counts = True
        try:
            yield
        finally:
            self._counts = False

    def trace(self, frame: FrameType, _event: str, _argument: object) -> Any:
        """Trace a call; the frame of a callback is directly above that of the loop's runner."""
        if threading.current_thread().name.startswith(("asyncio", "AnyIO")):
            sys.settrace(None)  # of this thread only, which is a worker
            return None
        # AnyIO looks once for its root task among the tasks of all loops, those of other tests too.
        if not self._counts or frame.f_code is asyncio.all_tasks.__code__:
            return None
        below = frame.f_back
        if below is not None and below.f_code.co_filename.endswith(("runners.py", "_compat.py")):
            self._end_callback()
            return self._count
        return self._count if below is not None and below.f_trace is not None else None

    def _count(self, frame: FrameType, event: str, _argument: object) -> Any:
        if event == "line":
            self._lines[frame.f_code.co_qualname] += 1
        return self._count

    def _end_callback(self) -> None:
        total = self._lines.total()
        if total > self.most:
            self.most, self.where = total, self._lines.most_common(3)
        self._lines.clear()


@pytest.fixture
def counter() -> Iterator[LineCounter]:
    found = LineCounter()
    threading.settrace(found.trace)
    yield found
    threading.settrace(None)  # type: ignore[arg-type]


@pytest.fixture
def traced_url(counter: LineCounter, settings: AgentSettings, clock: ManualClock) -> Iterator[str]:
    with running_agent(settings.model_copy(update={"promql_seconds": 60}), clock) as url:
        yield url


def test_no_callback_passes_over_all_series(
    counter: LineCounter, traced_url: str, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = traced_url
    client = AgentClient(url)
    for begin in range(0, _SERIES, 5000):
        numbers = range(begin, begin + 5000)
        client.put([Point(f"m{n % 10}", f"e{n // 10}", clock.now, 1.0, group="g") for n in numbers])
    eventually(
        lambda: httpx.get(f"{url}/streams/metadata/info").json()["head"] > _SERIES,
        timeout=60,
        what="the metadata is published",
    )
    requests = [
        httpx.Request("GET", f"{url}/api/v1/query", params={"query": f"sum({_ALL})"}),
        httpx.Request("GET", f"{url}/api/v1/query", params={"query": _ALL}),
        httpx.Request("GET", f"{url}/api/v1/series", params={"match[]": _ALL}),
        httpx.Request("GET", f"{url}/api/v1/label/entityID/values"),
        httpx.Request("GET", f"{url}/api/v1/metadata"),
        httpx.Request("POST", f"{url}/list", json={}),
        httpx.Request("POST", f"{url}/list", json={"nodes": [], "fields": ["group"]}),
        httpx.Request("POST", f"{url}/get", json={}),
        httpx.Request("POST", f"{url}/get", json={"groupName": ["g"], "latest": False}),
        *(
            httpx.Request("POST", f"{url}{path}", json=body, headers={"Accept": accept})
            for path, body in (("/list", {}), ("/get", {}), ("/get", {"latest": False}))
            for accept in (LINES, ARROW)
        ),
        httpx.Request("POST", f"{url}/list", json={"limit": 100_000}),
        httpx.Request("POST", f"{url}/list", json={"limit": 100_000, "nodes": []}),
        httpx.Request("POST", f"{url}/get", json={"limit": 100_000}),
        httpx.Request("POST", f"{url}/get", json={"limit": 100_000, "latest": False}),
        httpx.Request("GET", f"{url}/streams/raw/rows", params={"limit": 10_000}),
        httpx.Request("POST", f"{url}/query", json={"agg": "sum"}),
        httpx.Request("POST", f"{url}/query", json={"agg": "sum", "latest": False}),
        httpx.Request("POST", f"{url}/nodes"),
        httpx.Request("POST", f"{url}/sql", json={"query": _SQL.format("latest")}),
        httpx.Request("POST", f"{url}/sql", json={"query": _SQL.format("historical")}),
        httpx.Request("DELETE", f"{url}/monitoring?dry_run=true", json={"groupName": "g"}),
        httpx.Request("DELETE", f"{url}/monitoring", json={"groupName": "g"}),
    ]
    monkeypatch.setattr(slices, "time", StepClock())
    most: dict[str, tuple[int, list[tuple[str, int]]]] = {}
    for request in requests:
        with counter.counting(), httpx.Client(timeout=120) as http:
            answer = http.send(request)
        assert answer.is_success, (request.url, answer.text[:500])
        accept = request.headers.get("Accept", "")
        most[f"{request.method} {request.url.path} {request.content[:60]!r} {accept}"] = (
            counter.most,
            counter.where,
        )
    client.close()
    too_many = [(name, *found) for name, found in most.items() if found[0] > _MAX_LINES]
    assert not too_many, "\n".join(map(str, too_many))


def test_no_callback_passes_over_all_points_of_a_put(
    counter: LineCounter, traced_url: str, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The encoding looks at the clock after a number of points, not of lines.
    monkeypatch.setattr(slices, "time", StepClock(step_ms=6))
    monkeypatch.setattr(points_module, "_SLICE", 100)
    points = [
        {"metricID": "m", "entityID": f"e{n}", "val": n, "timestamp": clock.now}
        for n in range(_SERIES // 2)
    ]
    httpx.post(f"{traced_url}/put", json={"monitoring": points[:1]})
    with counter.counting():
        answer = httpx.post(f"{traced_url}/put", json={"monitoring": points}, timeout=60)
    assert answer.is_success, answer.text[:500]
    # Of the facts about new series, 1,000 are applied at once.
    assert counter.most <= _MAX_LINES + 5_000, counter.where
    stored = httpx.post(f"{traced_url}/query", json={"agg": "sum"}).json()
    assert stored["value"] == sum(range(_SERIES // 2))


def test_no_callback_applies_a_large_deletion_to_all_points(
    counter: LineCounter, traced_url: str, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = traced_url
    with closing(AgentClient(url)) as client:
        for begin in range(0, _SERIES, 5000):
            numbers = range(begin, begin + 5000)
            client.put(
                [Point("m", f"e{n}", clock.now, 1.0, group="ab"[n % 4 > 0]) for n in numbers]
            )
        assert client.delete(group="a").points == _SERIES // 4
    query = {"query": "sum(m)", "time": clock.now / 1000}
    requests = [
        httpx.Request("GET", f"{url}/api/v1/query", params=query),
        httpx.Request("POST", f"{url}/get", json={"metricID": ["m"], "latest": False}),
        httpx.Request("GET", f"{url}/streams/raw", params={"from": 0}),
        httpx.Request("GET", f"{url}/streams/raw/rows", params={"limit": 10_000}),
    ]
    monkeypatch.setattr(slices, "time", StepClock())
    # The first request to a path takes longer.
    httpx.get(f"{url}/streams/raw", params={"from": 0, "to": 0})
    too_many = []
    for request in requests:
        with counter.counting(), httpx.Client(timeout=120) as http:
            answer = http.send(request)
        assert answer.is_success, (request.url, answer.text[:500])
        if counter.most > _MAX_LINES:
            too_many.append((request.url, counter.most, counter.where))
    with closing(AgentClient(url)) as client:
        assert client.read("raw").table.num_rows == _SERIES * 3 // 4
    assert not too_many, "\n".join(map(str, too_many))


def test_no_callback_passes_over_all_records(
    counter: LineCounter, traced_url: str, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = traced_url
    schema = {"schema": {"type": "object"}, "indexed": ["kind"]}
    assert httpx.put(f"{url}/app/schemas/s", json=schema).is_success
    items = [
        {"key": f"k{n}", "val": {"kind": "a", "n": n}, "timestamp": clock.now, "schema": "s"}
        for n in range(_SERIES)
    ]
    monkeypatch.setattr(slices, "time", StepClock())
    with counter.counting():
        stored = httpx.post(f"{url}/app/put", json={"app": items}, timeout=60)
    assert stored.is_success, stored.text[:500]
    assert counter.most <= _MAX_LINES, counter.where
    query = {"schema": "s", "where": {"kind": "a"}}
    requests: list[tuple[str, dict[str, Any]]] = [
        ("/app/get", {}),
        ("/app/get", {"limit": 10}),
        ("/app/get", {"from": 0}),
        ("/app/get", {"nodes": []}),
        ("/app/query", query),
        ("/app/query", {**query, "where": {"n": {"gte": 0}}}),
        ("/app/query", {**query, "limit": 10}),
    ]
    too_many = []
    for path, body in requests:
        with counter.counting(), httpx.Client(timeout=120) as http:
            answer = http.post(f"{url}{path}", json=body)
        assert len(answer.json()["application"]) == body.get("limit", _SERIES), (path, body)
        if counter.most > _MAX_LINES:
            too_many.append((path, body, counter.most, counter.where))
    assert not too_many, "\n".join(map(str, too_many))


@pytest.mark.parametrize("latest", [True, False])
def test_many_points_are_aggregated_in_a_thread(
    url: str, clock: ManualClock, monkeypatch: pytest.MonkeyPatch, latest: bool
) -> None:
    client = AgentClient(url)
    client.put([Point("m", f"e{n}", clock.now, 1.0) for n in range(5000)])
    threads = []

    def state_of(column: pa.Array) -> AggregateState:
        threads.append(threading.current_thread().name)
        return aggregate(column)

    aggregate = aggregation._state_of
    monkeypatch.setattr(aggregation, "_state_of", state_of)
    answer = httpx.post(f"{url}/query", json={"agg": "sum", "latest": latest})
    assert answer.json()["value"] == 5000
    assert all(name.startswith("work") for name in threads), threads
    assert threads
    client.close()


def large_bodies() -> Iterator[tuple[str, str, bytes]]:
    """Yield (method, path, body) of requests with large bodies.

    Most are invalid or converted; in some, each bracket is checked.
    """
    point = {"metricID": "m", "entityID": "e", "val": "1.5", "timestamp": 1}
    numbers = b'{"%b": [' + b"1," * 100_000 + b'"x"]}'
    malformed = b'{"%b": [' + b"[]," * 100_000 + b"NaN]}"
    items = [point] * 20_000
    yield "POST", "/put", msgspec.json.encode({"monitoring": [*items, {**point, "val": "x"}]})
    brackets = b"[" + b"[]," * 300_000 + b"1]"
    yield "POST", "/app/put", b'{"app": [{"key": "k", "timestamp": 1, "val": %b}]}' % brackets
    yield "PATCH", "/streams/none", b'{"attributes": {"a": %b}}' % brackets
    for method, path, field in (
        ("POST", "/put", b"monitoring"),
        ("POST", "/get", b"metricID"),
        ("POST", "/list", b"metricID"),
        ("POST", "/query", b"metricID"),
        ("POST", "/app/put", b"app"),
        ("POST", "/app/get", b"key"),
        ("POST", "/routing/get", b"nodes"),
        ("DELETE", "/monitoring", b"metricID"),
        ("PUT", "/config", b"streams"),
        ("POST", "/sql", b"parameters"),
    ):
        yield method, path, numbers % field
        yield method, path, malformed % field


def test_no_callback_passes_over_a_whole_body(
    counter: LineCounter, traced_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slices, "time", StepClock())
    most = []
    for method, path, body in large_bodies():
        # The first request to a path takes longer.
        httpx.request(method, f"{traced_url}{path}", content=b"[]")
        with counter.counting(), httpx.Client(timeout=120) as http:
            answer = http.request(method, f"{traced_url}{path}", content=body)
        assert answer.status_code < 500, (path, answer.text[:500])
        most.append((path, body[:30], counter.most, counter.where))
    too_many = [each for each in most if each[2] > _MAX_LINES]
    assert not too_many, "\n".join(map(str, too_many))


def test_no_callback_encodes_a_long_list_as_an_event(counter: LineCounter, traced_url: str) -> None:
    points = [{"ts": number, "value": 1.0, "entity": "e"} for number in range(100_000)]
    rows = pa.table({"points": [points]})
    client = AgentClient(traced_url)
    client.create_stream("lists", rows.schema)
    client.append("lists", rows)
    client.close()
    url = f"{traced_url}/streams/lists/events"
    with (
        counter.counting(),
        httpx.stream("GET", url, params={"from": 0}, timeout=120) as answer,
    ):
        data = next(line for line in answer.iter_lines() if line.startswith("data: "))
    assert len(msgspec.json.decode(data.removeprefix("data: "))["points"]) == 100_000
    assert counter.most <= _MAX_LINES, counter.where
