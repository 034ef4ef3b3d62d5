"""Insights at a time of day on real Spark, over the days on which clocks change."""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from analytics.plan.nodes import Plan
from analytics_enabler.optimizer import optimize
from analytics_enabler.semantics import check
from analytics_worker.evaluate.computation import Computation
from analytics_worker.panes.batching import batch_points
from analytics_worker.panes.routing import route
from analytics_worker.spark.lowering import lower, lower_merge, lower_partial
from tests.analytics_worker.spark.test_sample_estimates_on_spark import merged
from tests.oracle.data import table
from tests.oracle.sql import answers, opened
from tests.support.points import Row, points

MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS
QUERIES = """
    a = COMPUTE AVG(x, 1 DAY) BY entity EVERY 1 DAYS AT 02:30 "Europe/Berlin";
    b = COMPUTE COUNT(x, 90 MINUTES) - MIN(x) EVERY 1 DAYS AT 23:30 "Europe/Berlin";
    c = COMPUTE MAX(SUM(x, 3 DAYS, 1 DAY) BY entity) EVERY 1 DAYS AT 06:00 "America/New_York";
    d = COMPUTE RUNNING_MEAN(x) BY entity EVERY 1 DAYS AT 04:30 "Asia/Kolkata";
    e = COMPUTE MEDIAN(x, 1 DAY) EVERY 1 DAYS AT 12:00 GMT
"""


def time_of(text: str) -> int:
    """Return a UTC time, given as text, in ms since 1970."""
    return round(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000)


@dataclass(frozen=True)
class Days:
    """The time from ``since`` to ``until`` (ms), in which daylight saving time begins or ends."""

    since: int
    until: int

    @property
    def rows(self) -> list[Row]:
        """Points at intervals of 17 minutes, alternately of two entities."""
        times = range(self.since - 30 * HOUR_MS, self.until, 17 * MINUTE_MS)
        return [
            Row("x", "ab"[place % 2], ts + 1, 10 + place % 7 + math.sin(place))
            for place, ts in enumerate(times)
        ]

    @property
    def plan(self) -> Plan:
        checked = check(QUERIES)
        assert checked.ok, checked.problems
        insights = tuple(one.deployed(one.name, self.since) for one in checked.definitions)
        return optimize(Plan(insights=insights)).plan

    def right(self, rows: Sequence[Row]) -> dict[tuple[str, str, int], float]:
        """Return the results of the oracle: (insight, key, tick) -> value."""
        with opened(table(list(rows))) as oracle:
            expected = answers(QUERIES, oracle, self.since, self.until)
        return {identity: answer.value for identity, answer in expected.items()}


BACK = Days(time_of("2025-10-25T07:00"), time_of("2025-10-28T00:00"))
FORTH = Days(time_of("2026-03-28T07:00"), time_of("2026-03-31T00:00"))


def values_of(results: pa.Table) -> dict[tuple[str, str, int], float]:
    return {
        (row["insight"], json.dumps(json.loads(row["key"])), row["ts"]): row["value"]
        for row in results.to_pylist()
    }


@pytest.mark.soak
@pytest.mark.parametrize("in_parts", [True, False])
@pytest.mark.parametrize("days", [BACK, FORTH])
def test_results_at_times_of_day_equal_the_oracle(
    spark: SparkSession, days: Days, in_parts: bool
) -> None:
    plan, rows = days.plan, days.rows
    after = {window.id: days.since for window in plan.windows}
    frame = spark.createDataFrame(batch_points(route(points(rows), plan.panes), plan.panes))
    computation = Computation(plan=plan, after=after)
    if in_parts:
        panes = merged(lower_partial(frame, plan.panes, after=0), plan)
        results = lower_merge(panes, computation)
    else:
        results = lower(frame, computation)
    found = {each: at for each, at in values_of(results.toArrow()).items() if each[2] <= days.until}
    expected = days.right(rows)
    assert found.keys() == expected.keys()
    assert found == pytest.approx(expected, rel=1e-9)
