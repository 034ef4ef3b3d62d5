"""Equal answers of a real Prometheus and an agent with the same samples."""

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mistbow.client import AgentClient, Point
from mistbow.streams.json_numbers import STALE
from tests.storage_agent.promql.fleet import BEGIN, END, MINUTE, fleet
from tests.storage_agent.promql.prometheus import running_prometheus, send
from tests.support.programs import needs

pytestmark = needs("prometheus")

COMMON = {"node": "n1", "site": "n1", "region": "r1", "rack": "7"}
QUERIES = [
    line
    for line in (Path(__file__).parent / "queries.txt").read_text().splitlines()
    if line and line[0] != "#"
]


@dataclass(frozen=True, slots=True)
class QueryTime:
    """The time of an instant query, or the start, end and step of a range query (all in ms)."""

    start: int
    end: int = 0
    step: int = 0

    def of(self, api: httpx.Client, query: str) -> dict[str, Any]:
        if not self.step:
            return dict(api.get("query", params={"query": query, "time": self.start / 1000}).json())
        times = {"start": self.start / 1000, "end": self.end / 1000, "step": self.step / 1000}
        return dict(api.post("query_range", data={"query": query, **times}).json())


_INSTANT = [
    # In range queries, Prometheus 2.42 moves the range of these from step to step.
    "predict_linear(temperature[30m] @ 1700003600, 3600)",
    "predict_linear(temperature[30m] @ end() offset 10m, -60)",
    # In range queries, the series that have a value at some time follow in no order.
    "sort(level)",
]

ALL = [
    QueryTime(BEGIN + 95 * MINUTE + 123),
    # From before there is anything to after all of it has gone stale.
    QueryTime(BEGIN - 10 * MINUTE, END + 10 * MINUTE, 97_000),
]


@pytest.fixture(scope="module")
def prometheus(processes: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
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


def test_listed_queries_are_answered_as_by_prometheus(
    prometheus: httpx.Client, agent: httpx.Client
) -> None:
    differing = []
    for query, asked in [
        *((query, asked) for query in QUERIES for asked in ALL),
        *((query, ALL[0]) for query in _INSTANT),
    ]:
        expected, found = asked.of(prometheus, query), asked.of(agent, query)
        if not alike(expected, found, ordered="sort" in query):
            differing.append((query, asked, str(expected)[:300], str(found)[:300]))
    assert differing == []


_SERIES = st.sampled_from(
    [
        *("temperature", 'temperature{room!="r0"}', "requests_total", "slow", "once"),
        *('requests_total{code="500"}', 'limit{level="low"}', '{entityID="a"}'),
        *("level", 'level{room="r0"}', "work_total", "ended", 'work_total{entityID="d"}'),
    ]
)
_OFFSETS = st.sampled_from(["", "", "", " offset 4m", " offset -90s"])
_SHIFTS = _OFFSETS | st.sampled_from(["", " @ 1700003600", " @ end()"])
_SELECTORS = st.builds("{}{}".format, _SERIES, _SHIFTS)
_DURATIONS = st.sampled_from(["1m", "5m", "13m", "1h"])
_STEPS = st.sampled_from(["1m", "37s", "20s"])
_OVER_SAMPLES = st.sampled_from(
    [
        *("changes({})", "resets({})", "idelta({})", "irate({})", "last_over_time({})"),
        *("max_over_time({})", "min_over_time({})", "count_over_time({})"),
        *("present_over_time({})", "absent_over_time({})"),
    ]
)
_OF_VALUES = st.sampled_from(
    [
        *("abs({})", "-({})", "floor({})", "sgn({})", "round({})", "sqrt({})"),
        *("clamp_min({}, 2)", "clamp_max({}, 2)", "hour(timestamp({}))", "vector(scalar({}))"),
        *("day_of_year(timestamp({}))", "absent({})", 'count_values("n", {})'),
        'label_replace({}, "room", "$1", "entityID", "(a|b)")',
    ]
)
_CHOOSING = st.sampled_from(["min", "max", "count", "group"])
_GROUPINGS = st.sampled_from([" ", " by (entityID) ", " without (code, room) ", " by (room) "])
_OPERATORS = st.sampled_from(["+", "-", "*", "/", ">", "<=", "== bool", "!="])
_SETS = st.sampled_from(["and", "or", "unless"])
_MATCHINGS = st.sampled_from([" ", " on (entityID)", " ignoring (code, room, level)"])
_NUMBERS = st.sampled_from(["0", "1", "-2.5", "1e9"])


def _over_range(
    functions: st.SearchStrategy[str], vectors: st.SearchStrategy[str]
) -> st.SearchStrategy[str]:
    return st.builds(
        lambda function, of, range_, at: function.format(f"{of}[{range_}]{at}"),
        *(functions, _SERIES, _DURATIONS, _SHIFTS),
    ) | st.builds(
        lambda function, of, range_, step, at: function.format(f"({of})[{range_}:{step}]{at}"),
        # Prometheus 2.42 shifts a subquery with @ within another subquery.
        *(functions, vectors, _DURATIONS, _STEPS, _OFFSETS),
    )


def _composed_exactly(vectors: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.one_of(
        _over_range(_OVER_SAMPLES, vectors),
        st.builds("{}{}({})".format, _CHOOSING, _GROUPINGS, vectors),
        st.builds("({} {} {})".format, vectors, _OPERATORS, _NUMBERS),
        st.builds("({} {}{} {})".format, vectors, _OPERATORS, _MATCHINGS, vectors),
        st.builds("({} {}{} {})".format, vectors, _SETS, _MATCHINGS, vectors),
        st.builds(lambda function, of: function.format(of), _OF_VALUES, vectors),
    )


_EXACT = st.recursive(_SELECTORS, _composed_exactly, max_leaves=5)
"""Queries whose values are equal to the last bit.

Only such queries may be operands of functions whose results jump at a difference in the last bit,
such as comparisons.
"""

_ROUNDED_JUMPING = st.sampled_from(["rate({})", "increase({})", "delta({})", "deriv({})"])
_ROUNDED = st.sampled_from(
    [
        *("sum_over_time({})", "avg_over_time({})", "stddev_over_time({})", "stdvar_over_time({})"),
        *("quantile_over_time(0.3, {})", "holt_winters({}, 0.4, 0.2)"),
    ]
)
_SUMMING = st.sampled_from(["sum", "avg", "stddev", "stdvar", "max"])


def _composed(vectors: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.one_of(
        _over_range(_ROUNDED, vectors),
        st.builds("{}{}({})".format, _SUMMING, _GROUPINGS, vectors),
        st.builds("({} {} {})".format, vectors, st.sampled_from("+-*/"), _SMALL_NUMBERS),
        st.builds("({} + {} {})".format, vectors, _MATCHINGS, vectors),
        st.builds("({} {}{} {})".format, vectors, _SETS, _MATCHINGS, vectors),
        st.builds("atan({})".format, vectors),
    )


_SMALL_NUMBERS = st.sampled_from(["1", "-2.5", "0.3"])
_QUERIES = _EXACT | st.recursive(
    _EXACT | _over_range(_ROUNDED_JUMPING, _EXACT), _composed, max_leaves=4
)
_ASKED = st.sampled_from(
    [
        QueryTime(BEGIN + 20 * MINUTE, BEGIN + 140 * MINUTE, 311_000),
        QueryTime(BEGIN + 99 * MINUTE, BEGIN + 110 * MINUTE, 30_000),
        QueryTime(BEGIN + 61 * MINUTE + 30_000),
    ]
)


@settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(query=_QUERIES, asked=_ASKED)
def test_generated_query_is_answered_as_by_prometheus(
    prometheus: httpx.Client, agent: httpx.Client, query: str, asked: QueryTime
) -> None:
    expected, found = asked.of(prometheus, query), asked.of(agent, query)
    assert alike(expected, found), (query, str(expected)[:500], str(found)[:500])


_VALUES = st.integers(-80, 80).map(lambda number: number / 8) | st.sampled_from(
    [math.nan, math.inf, -math.inf, STALE, -0.0]
)
_GAPS = st.sampled_from([15_000, 15_000, 30_000, 400_000])
_DRAWN_SERIES = st.lists(st.tuples(_GAPS, _VALUES), min_size=1, max_size=30)
_DRAWN_QUERIES = st.lists(
    st.one_of(
        st.sampled_from(["{}", "count_values('n', {})", "-{}", "{} > 0", "{} == {}", "avg({})"]),
        st.builds(
            lambda function, range_: function.format("{}" + f"[{range_}]"),
            _OVER_SAMPLES | _ROUNDED | _ROUNDED_JUMPING,
            st.sampled_from(["30s", "2m", "10m"]),
        ),
    ),
    min_size=8,
    max_size=8,
    unique=True,
)
_numbers = itertools.count()


@settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(gaps=_DRAWN_SERIES, queries=_DRAWN_QUERIES)
def test_drawn_series_are_answered_as_by_prometheus(
    prometheus: httpx.Client,
    agent: httpx.Client,
    client: AgentClient,
    gaps: list[tuple[int, float]],
    queries: list[str],
) -> None:
    metric = f"drawn_{next(_numbers)}"
    begin = END - 30 * MINUTE
    times = itertools.accumulate((gap for gap, _ in gaps), initial=begin)
    # Prometheus takes no samples that are an hour older than its newest.
    samples = [(ts, value) for ts, (_, value) in zip(times, gaps, strict=False) if ts < END]
    send(prometheus, [({**COMMON, "entityID": "a", "__name__": metric}, samples)])
    client.put([Point(metric, "a", ts, value) for ts, value in samples])
    asked = QueryTime(begin - MINUTE, END + 6 * MINUTE, 47_000)
    for query in (each.replace("{}", metric) for each in queries):
        expected, found = asked.of(prometheus, query), asked.of(agent, query)
        assert alike(expected, found), (query, samples, str(expected)[:700], str(found)[:700])


def alike(expected: dict[str, Any], found: dict[str, Any], *, ordered: bool = False) -> bool:
    """Return whether two answers are equal, except for messages of errors and the last digits.

    ``ordered``: whether the order of the series counts.
    """
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
