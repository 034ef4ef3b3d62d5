"""Queries to a real Prometheus and to an agent that were fed the same: their answers are equal."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mistbow.client.agent import AgentClient, Point
from tests.storage_agent.promql.fleet import BEGIN, END, MINUTE, fleet
from tests.storage_agent.promql.prometheus import running_prometheus
from tests.support.programs import needs

pytestmark = needs("prometheus")

COMMON = {"node": "n1", "site": "n1", "region": "r1", "rack": "7"}
QUERIES = [
    line
    for line in (Path(__file__).parent / "queries.txt").read_text().splitlines()
    if line and line[0] != "#"
]


@dataclass(frozen=True, slots=True)
class Asked:
    """A query at one time, or over a time (ms)."""

    start: int
    end: int = 0
    step: int = 0

    def of(self, api: httpx.Client, query: str) -> dict[str, Any]:
        if not self.step:
            return dict(api.get("query", params={"query": query, "time": self.start / 1000}).json())
        times = {"start": self.start / 1000, "end": self.end / 1000, "step": self.step / 1000}
        return dict(api.post("query_range", data={"query": query, **times}).json())


ALL = [
    Asked(BEGIN + 95 * MINUTE + 123),
    # From before there is anything to after all of it has gone stale.
    Asked(BEGIN - 10 * MINUTE, END + 10 * MINUTE, 97_000),
]


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    with (
        running_prometheus(tmp_path_factory.mktemp("prometheus"), fleet(), COMMON) as url,
        httpx.Client(base_url=f"{url}/api/v1", timeout=30) as client,
    ):
        yield client


@pytest.fixture(scope="module")
def agent(client: AgentClient, api: httpx.Client) -> httpx.Client:
    points = [
        Point(series.metric, series.entity, ts, value, labels=dict(series.labels) or None)
        for series in fleet()
        for ts, value in series.samples
    ]
    # One series after the other, the later times of half of them first: order is no matter.
    points[: len(points) // 2] = points[len(points) // 2 - 1 :: -1]
    for begin in range(0, len(points), 5000):
        client.put(points[begin : begin + 5000])
    return api


def test_all_queries_of_the_list(prometheus: httpx.Client, agent: httpx.Client) -> None:
    differing = []
    for query in QUERIES:
        for asked in ALL:
            expected, found = asked.of(prometheus, query), asked.of(agent, query)
            if not alike(expected, found, ordered="sort" in query):
                differing.append((query, asked, str(expected)[:300], str(found)[:300]))
    assert differing == []


_SELECTORS = st.sampled_from(
    [
        *("temperature", 'temperature{room!="r0"}', "requests_total", "slow", "once"),
        *('requests_total{code="500"}', 'limit{level="low"}', '{entityID="a"}'),
    ]
)
_DURATIONS = st.sampled_from(["1m", "5m", "13m", "1h"])
_STEPS = st.sampled_from(["1m", "37s", "5m"])
_RANGE_FUNCTIONS = st.sampled_from(
    [
        *("rate", "increase", "irate", "delta", "changes", "resets", "sum_over_time"),
        *("last_over_time", "max_over_time", "count_over_time", "stddev_over_time"),
    ]
)
_AGGREGATIONS = st.sampled_from(["sum", "avg", "min", "max", "count", "group"])
_GROUPINGS = st.sampled_from([" ", " by (entityID) ", " without (code, room) ", " by (room) "])
_OPERATORS = st.sampled_from(["+", "-", "*", "/", ">", "<=", "== bool", "!="])
_SETS = st.sampled_from(["and", "or", "unless"])
_MATCHINGS = st.sampled_from([" ", " on (entityID)", " ignoring (code, room, level)"])
_NUMBERS = st.sampled_from(["0", "1", "-2.5", "1e9"])


def _composed(vectors: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.one_of(
        st.builds("{}({}[{}])".format, _RANGE_FUNCTIONS, _SELECTORS, _DURATIONS),
        st.builds("{}({}[{}:{}])".format, _RANGE_FUNCTIONS, vectors, _DURATIONS, _STEPS),
        st.builds("{}{}({})".format, _AGGREGATIONS, _GROUPINGS, vectors),
        st.builds("({} {} {})".format, vectors, _OPERATORS, _NUMBERS),
        st.builds("({} {}{} {})".format, vectors, _OPERATORS, _MATCHINGS, vectors),
        st.builds("({} {}{} {})".format, vectors, _SETS, _MATCHINGS, vectors),
        st.builds("{}({})".format, st.sampled_from(["abs", "-", "floor", "sgn"]), vectors),
    )


_QUERIES = st.recursive(_SELECTORS, _composed, max_leaves=6)


@settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(query=_QUERIES)
def test_any_query(prometheus: httpx.Client, agent: httpx.Client, query: str) -> None:
    asked = Asked(BEGIN + 20 * MINUTE, BEGIN + 140 * MINUTE, 311_000)
    expected, found = asked.of(prometheus, query), asked.of(agent, query)
    assert alike(expected, found), (query, str(expected)[:500], str(found)[:500])


def alike(expected: dict[str, Any], found: dict[str, Any], *, ordered: bool = False) -> bool:
    """Tell whether answers are equal, but for the words of errors and the last digits."""
    if expected["status"] == "error":
        return found["status"] == "error" and found["errorType"] == expected["errorType"]
    if found["status"] == "error" or found["data"]["resultType"] != expected["data"]["resultType"]:
        return False
    left, right = expected["data"]["result"], found["data"]["result"]
    if expected["data"]["resultType"] in ("scalar", "string"):
        return _close([left], [right])
    if not ordered:
        left, right = _by_labels(left), _by_labels(right)
    return [row["metric"] for row in left] == [row["metric"] for row in right] and all(
        _close(_values(a), _values(b)) for a, b in zip(left, right, strict=True)
    )


def _by_labels(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda row: sorted(row["metric"].items()))


def _values(row: dict[str, Any]) -> list[Any]:
    return row["values"] if "values" in row else [row["value"]]


def _close(left: Sequence[Any], right: Sequence[Any]) -> bool:
    return len(left) == len(right) and all(
        abs(a[0] - b[0]) < 1e-6 and (a[1] == b[1] or _near(a[1], b[1]))
        for a, b in zip(left, right, strict=True)
    )


def _near(left: str, right: str) -> bool:
    try:
        a, b = float(left), float(right)
    except ValueError:
        return False
    return math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-9) or (math.isnan(a) and math.isnan(b))
