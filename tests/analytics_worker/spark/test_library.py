"""Spark as a streaming library: every logical operator runs, or its refusal has a reason."""

import math
from pathlib import Path

import msgspec
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from analytics.plan.fragments import StreamLocation, Whole
from analytics.plan.functions import UserOperator
from analytics.plan.logical_operators import OPERATORS, operators_of
from analytics.plan.nodes import Insight, Plan
from analytics_enabler.optimizer import optimize
from analytics_enabler.semantics import check
from analytics_worker.evaluate.composition import compose
from analytics_worker.evaluate.computation import Computation
from analytics_worker.panes.batching import batch_points
from analytics_worker.panes.routing import route
from analytics_worker.spark.failure_accumulator import failure_reporter
from analytics_worker.spark.lowering import lower
from analytics_worker.spark.operator_support import OPERATOR_SUPPORT
from analytics_worker.stateful.state_table import StateTable
from tests.support.operators import install_example_operators
from tests.support.points import Row, points
from tests.support.windows import windows_of

QUERIES = """
    a = COMPUTE SUM(x) + COUNT(x) - MIN(x) * MAX(x) / AVG(x) EVERY 4 s;
    b = COMPUTE SDEV(x) + VARIANCE(x) + GEOMETRIC_MEAN(x) + MEDIAN(x) + MODE(x) EVERY 4 s;
    c = COMPUTE PERCENTILE[90](x) + TOP_K[2](x) + HISTOGRAM[3](x) EVERY 4 s;
    d = COMPUTE FORECAST[2](x) + CORRELATION(x, y) + RATE(x) EVERY 4 s;
    e = COMPUTE OUTLIER_DETECTION(x) EVERY 4 s WITH ALGORITHM pmcod AND K=1 AND R=0.5;
    f = COMPUTE RUNNING_COUNT(x) + RUNNING_MEAN(x) + RUNNING_MAX(x) + RUNNING_MIN(x) EVERY 4 s;
    g = COMPUTE RUNNING_SDEV(x) + EWMA[0.5](x) + PEWMA[0.5](x) + DIFF(x) EVERY 4 s;
    h = COMPUTE SQRT(ABS(-SUM(x))) + SQR(x) + EXP(LOG(AVG(x))) EVERY 4 s;
    i = COMPUTE MAX(AVG(x) BY entityID) + (AVG(x) WHEN > 0) EVERY 4 s;
    j = COMPUTE AVG(x) BY entityID WHEN entityID == "a" AND > 0 OR NOT < 5 OR IN (1, 2) EVERY 4 s;
    k = COMPUTE GEOHASH[4](x, y) EVERY 4 s;
    l = COMPUTE rack WHEN x > 0 EVERY 4 s;
    m = COMPUTE trimmed_mean[0.25](x) + gap(x, y) EVERY 4 s;
    n = COMPUTE trimmed_mean(AVG(x) BY entityID) EVERY 4 s;
    o = COMPUTE trimmed_mean(x, 2 s);
    p = COMPUTE MEDIAN(AVG(x), 8 s) EVERY 4 s;
    q = COMPUTE GEOHASH[4](x) EVERY 4 s;
    r = COMPUTE AVG(x) BY ip, movie WHEN ipToCountry(ip) IN legalCountries(movie) AND > 0 OR > 99
        EVERY 4 s
"""
ROWS = [
    Row(
        metric=metric,
        entity="ab"[number % 2],
        ts=1 + 250 * number,
        value=float(10 + number % 7 + phase * math.sin(number)),
        attributes={"rack": "r1", "x": "35.1,33.4", "ip": "10.1.0.1", "movie": "Zorba"},
    )
    for phase, metric in enumerate("xy")
    for number in range(48)
]


def whole(plan: Plan) -> Whole:
    return Whole(
        id="f",
        source=StreamLocation("n1", "raw"),
        target=StreamLocation("n1", "results"),
        plan=plan,
    )


@pytest.fixture
def plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Plan:
    install_example_operators(tmp_path, monkeypatch)
    checked = check(QUERIES, metrics=frozenset("xy"))
    assert checked.ok, checked.problems
    insights = tuple(one.deployed(one.name, 0) for one in checked.definitions)
    return optimize(Plan(insights=insights)).plan


def test_operator_support_is_total_and_refusals_have_reasons() -> None:
    assert OPERATOR_SUPPORT.keys() == OPERATORS
    refused = {name: reason for name, reason in OPERATOR_SUPPORT.items() if reason is not None}
    assert refused.keys() == {"Aggregate", "Value"}
    assert all(refused.values())


def test_supported_operators_run_and_equal_composition(spark: SparkSession, plan: Plan) -> None:
    supported = {name for name, reason in OPERATOR_SUPPORT.items() if reason is None}
    assert {name for name, _ in operators_of(whole(plan))} == supported

    unknown = _with_unknown_operator(plan, "m", UserOperator("GAP", "9"))
    reporter = failure_reporter(spark)
    after = {window.id: 0 for window in plan.windows}
    frame = spark.createDataFrame(batch_points(route(points(ROWS), plan.panes), plan.panes))
    found = values_of(
        lower(frame, Computation(plan=unknown, after=after, report_failure=reporter)).toArrow()
    )
    expected = values_of(compose(windows_of(points(ROWS), plan), plan, StateTable()))
    assert {uid for uid, _, _ in expected} == set("abcdefghijklmnopqr")
    (lacking,) = found.keys() - expected.keys()
    assert lacking[0] == "unknown"
    assert found.pop(lacking) == (None, None)
    assert found.keys() == expected.keys()
    for identity, (value, text) in expected.items():
        near = value if value is None else pytest.approx(value, rel=1e-9)
        assert found[identity] == (near, text), identity
    # Failures of operators arrive through the Spark accumulator.
    assert set(reporter.accumulator.value) == {"m", "n", "o", "unknown"}
    assert reporter.accumulator.value["m"].missing == 0
    assert str(reporter.accumulator.value["unknown"]) == (
        "3 values are missing: GAP 9: the operator is not installed on this worker"
    )


def _with_unknown_operator(plan: Plan, uid: str, operator: UserOperator) -> Plan:
    """Add an insight whose operator is not installed; return the new plan."""
    (insight,) = (one for one in plan.insights if one.uid == uid)
    measure = insight.expression.left  # type: ignore[union-attr]
    other = Insight(
        uid="unknown",
        expression=msgspec.structs.replace(measure, function=operator),
        by=(),
        every_ms=insight.every_ms,
        since=0,
    )
    return msgspec.structs.replace(plan, insights=(*plan.insights, other))


def values_of(results: pa.Table) -> dict[tuple[str, str, int], tuple[float | None, str | None]]:
    return {
        (row["insight"], row["key"], row["ts"]): (row["value"], row["text"])
        for row in results.to_pylist()
    }
