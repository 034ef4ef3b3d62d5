"""Sampled panes and windows, of one site and merged, are equal with and without Spark."""

import math

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from analytics.plan.nodes import Plan
from analytics_enabler.optimizer import optimize
from analytics_enabler.semantics import check
from analytics_worker.evaluate.composition import compose
from analytics_worker.evaluate.computation import Computation
from analytics_worker.panes.batching import batch_points
from analytics_worker.panes.routing import route
from analytics_worker.spark.lowering import lower, lower_merge, lower_partial
from analytics_worker.spark.pane_columns import PANE_COLUMNS
from analytics_worker.stateful.state_table import StateTable
from tests.support.points import Row, points
from tests.support.windows import windows_of_routed

QUERIES = """
    s = COMPUTE SUM(x, 4 s) BY rack EVERY 2 s WITH SAMPLE 0.4;
    m = COMPUTE MEDIAN(x, 4 s) BY rack EVERY 2 s WITH SAMPLE 0.4;
    d = COMPUTE SDEV(x, 4 s) BY rack EVERY 2 s WITH SAMPLE 0.4;
    f = COMPUTE AVG(x, 4 s) BY rack EVERY 2 s WITH SAMPLE 2;
    g = COMPUTE MAX(x, 4 s) EVERY 2 s WITH SAMPLE 2;
    b = COMPUTE AVG(x, 4 s) EVERY 2 s WITH MAX_ERROR 0.1 AND CONFIDENCE 0.9;
    n = COMPUTE COUNT(x, 2 s) BY entity EVERY 1 s WITH SAMPLE 0.1;
    p = COMPUTE MIN(x, 2 s) BY rack EVERY 2 s
"""
ROWS = [
    Row(
        metric="x",
        entity=f"e{number % 7}",
        ts=1 + 37 * number,
        value=math.sin(number) * number,
        attributes={"rack": float(number % 2)},
    )
    for number in range(300)
]
NUMBERS = ("value", "low", "high", "confidence")


def values_of(results: pa.Table) -> dict[tuple[object, ...], list[float]]:
    return {
        (row["insight"], row["key"], row["ts"]): [
            math.nan if row[name] is None else row[name] for name in NUMBERS
        ]
        for row in results.to_pylist()
    }


def merged(panes: DataFrame, plan: Plan) -> DataFrame:
    ids = F.array(*[F.lit(pane.id) for pane in plan.panes])
    return panes.select(
        (F.array_position(ids, F.col("pane")) - 1).cast("int").alias("route"),
        "key",
        F.col("ts").alias("pane"),
        "due",
        *PANE_COLUMNS,
    )


def test_spark_equals_composition(spark: SparkSession) -> None:
    checked = check(QUERIES)
    assert checked.ok, checked.problems
    insights = tuple(one.deployed(one.name, 0) for one in checked.definitions)
    plan = optimize(Plan(insights=insights)).plan
    routed = route(points(ROWS), plan.panes)
    expected = values_of(compose(windows_of_routed(routed, plan), plan, StateTable()))
    assert {insight for insight, _, _ in expected} == set("smdfgbnp")

    frame = spark.createDataFrame(batch_points(routed, plan.panes))
    after = {window.id: 0 for window in plan.windows}
    computation = Computation(plan=plan, after=after)
    whole = values_of(lower(frame, computation).toArrow())
    parted = merged(lower_partial(frame, plan.panes, after=0), plan)
    for found in (whole, values_of(lower_merge(parted, computation).toArrow())):
        assert found.keys() == expected.keys()
        for identity, numbers in expected.items():
            assert found[identity] == pytest.approx(numbers, rel=1e-9, nan_ok=True), identity
