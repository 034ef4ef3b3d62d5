"""Sampled panes and windows, of one site and merged, are equal with and without Spark."""

import json
import math
import re

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
from mistbow.streams.results import result_fields
from tests.oracle.spark import in_one_batch
from tests.oracle.sql import POINTS, answers, opened
from tests.oracle.stored_points import compact_key
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
BOUNDED = """
    s = COMPUTE SUM(x, 4 s) BY rack EVERY 4 s WITH SAMPLE 5;
    a = COMPUTE AVG(x, 4 s) EVERY 4 s WITH SAMPLE 20;
    e = COMPUTE AVG(even, 4 s) BY rack EVERY 4 s WITH SAMPLE 3;
    w = COMPUTE SUM(x, 4 s) BY rack EVERY 4 s WITH SAMPLE 200;
    n = COMPUTE COUNT(x, 4 s) EVERY 4 s WITH SAMPLE 5
"""


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


def test_bounds_of_few_points_are_marked_and_contain_the_values_of_the_oracle(
    spark: SparkSession,
) -> None:
    checked = check(BOUNDED)
    assert checked.ok, checked.problems
    insights = tuple(one.deployed(one.name, 0) for one in checked.definitions)
    rows = [
        Row(
            metric=metric,
            entity=f"e{number % 3}",
            ts=1 + 33 * number,
            value=10 + math.sin(number**2) if metric == "x" else 7.0,
            attributes={"rack": float(number % 3 % 2)},
        )
        for number in range(484)  # four windows of 4 s, with 40 or 41 points of each entity
        for metric in ("x", "even")
    ]
    plan = optimize(Plan(insights=insights)).plan
    found = [result_fields(row) for row in in_one_batch(spark, points(rows), [plan]).to_pylist()]
    plain = re.sub(" WITH SAMPLE [0-9]+", "", BOUNDED)
    with opened(stored(rows)) as connection:
        expected = answers(plain, connection, 0, 16_000)
    values = {
        (name, compact_key(json.loads(key)), tick): answer.value
        for (name, key, tick), answer in expected.items()
    }
    by_identity = {(row["insight"], compact_key(row["key"]), row["ts"]): row for row in found}
    assert by_identity.keys() == values.keys()
    for identity, row in by_identity.items():
        true = values[identity]
        assert row["low"] - 1e-6 <= true <= row["high"] + 1e-6, row
        assert row["confidence"] == 0.95
        # The samples of `s` are too small. Those of `a` are smooth, the values of `even` are equal,
        # `w` reads all points, and counts are exact.
        assert row["few_points"] == (5 if row["insight"] == "s" else None), row


def stored(rows: list[Row]) -> pa.Table:
    """Return points as the oracle reads them."""
    columns = [
        {
            "metric": row.metric,
            "entity": row.entity,
            "attributes": json.dumps(row.attributes),
            "ts": row.ts,
            "value": row.value,
            "horizon": -1,
        }
        for row in rows
    ]
    return pa.Table.from_pylist(columns, POINTS)
