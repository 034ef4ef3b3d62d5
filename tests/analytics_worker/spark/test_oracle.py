"""Queries and streams drawn at random: what Spark says of them is what DuckDB says."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from analytics_enabler.semantics import check
from analytics_worker.accumulating.ledger import Ledger
from analytics_worker.composition import compose
from tests.analytics_worker.spark.test_lowering import NO_SHRINKING
from tests.oracle.data import UNTIL_MS, Stream, streams, table
from tests.oracle.queries import texts
from tests.oracle.running import answers_of, cases_of, differences, plan_of
from tests.oracle.spark import in_a_batch, in_a_stream
from tests.oracle.sql import opened
from tests.support.points import Row, points
from tests.support.windows import windows_of

_AT_ONCE = 50
"""So many queries are one Spark job."""


def _together(accepted: st.SearchStrategy[str]) -> st.SearchStrategy[list[str]]:
    # No two are the same, or those that Hypothesis begins with would all be the simplest.
    return st.lists(accepted, min_size=_AT_ONCE, max_size=_AT_ONCE, unique=True)


_accepted = texts().filter(lambda text: check(text).ok)
_at_ticks = _accepted.filter(lambda text: " EVERY " in text and "POINTS" not in text)
_FEW = settings(
    max_examples=1, deadline=None, phases=NO_SHRINKING, suppress_health_check=list(HealthCheck)
)
_MANY = settings(_FEW, max_examples=40)
_SOME = settings(_FEW, max_examples=3)


@_FEW
@given(streams, _together(_accepted))
def test_drawn_queries_equal_the_oracle(
    spark: SparkSession, stream: Stream, queries: list[str]
) -> None:
    _compare_batch(spark, stream, queries)


@pytest.mark.soak
@pytest.mark.timeout(1800)
@_MANY
@given(streams, _together(_accepted))
def test_two_thousand_drawn_queries_equal_the_oracle(
    spark: SparkSession, stream: Stream, queries: list[str]
) -> None:
    _compare_batch(spark, stream, queries)


@pytest.mark.soak
@pytest.mark.timeout(1800)
@_SOME
@given(streams, _together(_at_ticks))
def test_streamed_results_equal_the_oracle(
    spark: SparkSession,
    tmp_path_factory: pytest.TempPathFactory,
    stream: Stream,
    queries: list[str],
) -> None:
    cases = cases_of(queries)
    folder: Path = tmp_path_factory.mktemp("stream")
    found = answers_of(in_a_stream(spark, stream, plan_of(cases), folder))
    with opened(table(stream.come)) as oracle:
        for case in cases:
            assert not differences(case, found, oracle, UNTIL_MS), case.text


def _compare_batch(spark: SparkSession, stream: Stream, queries: list[str]) -> None:
    cases = cases_of(queries)
    found = answers_of(in_a_batch(spark, stream, plan_of(cases)))
    with opened(table(stream.rows)) as oracle:
        for case in cases:
            assert not differences(case, found, oracle, UNTIL_MS), case.text


_ROWS = [
    Row(metric, entity, 500 * number + 250, value, -1, attributes)
    for entity, attributes in (
        ("e1", {"region": "north", "zone": "a", "rack": 1.0}),
        ("e2", {"region": "south", "zone": "r", "rack": "r"}),
        ("e3", {"region": "south", "spare": True}),
    )
    for number, value in enumerate((1.0, 2.5, -3.0, 7.0, 7.0, 0.25))
    for metric in "xy"
]


@pytest.mark.parametrize(
    "query",
    [
        "COUNT(x WHEN rack NOT IN (1, 2), 5 s)",
        'SUM(x) WHEN rack NOT IN (2, "a")',
        "SUM(x) BY rack, spare WHEN rack NOT IN (7) OR spare NOT IN (false)",
        "COUNT(x WHEN zone >= region)",
        "COUNT(x) BY zone, region, rack WHEN zone > region OR zone == rack",
    ],
)
def test_what_once_differed(query: str) -> None:
    (case,) = cases_of([f"q = COMPUTE {query} EVERY 1 s"])
    plan = plan_of([case])
    found = answers_of(compose(windows_of(points(_ROWS), plan), plan, Ledger()))
    with opened(table(_ROWS)) as oracle:
        assert not differences(case, found, oracle, UNTIL_MS)
