"""Lowered plans, run as one batch and compared with DuckDB over the same points."""

import math
import re
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from analytics.plan.expressions import Measure, Source
from analytics.plan.functions import FUNCTIONS, Function, Parameters
from analytics.plan.nodes import Insight, Pane, Plan, Window
from analytics_worker.evaluate.computation import Computation
from analytics_worker.panes.batching import batch_points
from analytics_worker.panes.routing import ROUTED
from analytics_worker.spark.lowering import lower
from analytics_worker.spark.session import generate_points, warm_up
from tests.oracle.functions import FORMULAS
from tests.support.conditions import eventually

MEASURES: tuple[tuple[Function, Parameters], ...] = (
    ("SUM", ()),
    ("COUNT", ()),
    ("MIN", ()),
    ("MAX", ()),
    ("AVG", ()),
    ("SDEV", ()),
    ("VARIANCE", ()),
    ("GEOMETRIC_MEAN", ()),
    ("LATEST", ()),
    ("MEDIAN", ()),
    ("PERCENTILE", (90.0,)),
    ("MODE", ()),
    ("RATE", ()),
    ("TOP_K", (3.0,)),
    ("OUTLIER_DETECTION", (2.0, 2.0)),
)
WINDOWS = ((1000, 1000), (5000, 1000), (4000, 2000), (1000, 5000), (6000, 3000))
OFFSET_MS = 3000
_END = 20_000


def plan_of(shapes: list[tuple[int, int]], since: int = 0) -> Plan:
    """Return a plan of two panes, with windows of each shape over each pane, and all functions.

    ``shapes``: (length, interval) of windows in ms; ``since``: the beginning of the insights (ms).
    """
    width = math.gcd(*(number for shape in shapes for number in shape))
    width = math.gcd(width, OFFSET_MS)
    contents = tuple(
        sorted({spec.content for spec in FUNCTIONS.values() if spec.content is not None})
    )
    panes = tuple(
        Pane(id=f"p{n}", source=Source(f"m{n}"), by=(), width_ms=width, contents=contents)
        for n in (0, 1)
    )
    windows = tuple(
        Window(
            id=f"{pane.id}-{size}-{every}-{offset}",
            pane=pane.id,
            size_ms=size,
            every_ms=every,
            offset_ms=offset,
            contents=contents,
        )
        for pane in panes
        for size, every in shapes
        for offset in (0, OFFSET_MS)
    )
    insights = tuple(
        Insight(
            uid=f"{function} {window.id}",
            expression=Measure(function, window.id, parameters),
            by=(),
            every_ms=window.every_ms,
            since=since,
        )
        for window in windows
        for function, parameters in MEASURES
    )
    return Plan(insights=insights, windows=windows, panes=panes)


def oracle(points: pa.Table, plan: Plan) -> dict[tuple[str, str, int], float]:
    """Return the expected values, computed by DuckDB: (insight, key, tick) -> value."""
    expected = {}
    places = {pane.id: place for place, pane in enumerate(plan.panes)}
    windows = {window.id: window for window in plan.windows}
    for insight in plan.insights:
        measure = insight.expression
        assert isinstance(measure, Measure)
        window = windows[measure.window]
        rows = duckdb.execute(
            f"""
            with grouped as (
                select key, t, list(value order by value) as l,
                    list(struct_pack(ts, value, entity) order by ts, entity, value) as p
                from range(0, {_END + 10_000}, {window.every_ms}) as ticks(t), points
                where route = {places[window.pane]} and ts > t - {window.lookback_ms}
                  and ts <= t - {window.offset_ms} and t > {insight.since}
                group by key, t
            )
            select key, t, {FORMULAS[measure.function](measure.parameters).value}
            from grouped
            """  # noqa: S608 - numbers of our own
        ).fetchall()
        expected |= {
            (insight.uid, key, tick): float(value) for key, tick, value in rows if value is not None
        }
    return expected


_point = st.tuples(
    st.integers(0, 1),
    st.sampled_from(['{"a":"x"}', '{"a":"y"}']),
    st.integers(1, _END),
    st.floats(-1e6, 1e6) | st.integers(-2, 9).map(float) | st.floats(1e9, 1e9 + 1),
)


# To make an example smaller takes minutes: each is a query.
NO_SHRINKING = (Phase.explicit, Phase.reuse, Phase.generate)


@settings(
    max_examples=1,
    deadline=None,
    phases=NO_SHRINKING,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    st.lists(_point, min_size=1, max_size=60),
    st.lists(st.sampled_from(WINDOWS), min_size=1, max_size=3, unique=True),
    st.sampled_from([0, 7000]),
)
def test_batch_equals_the_oracle(
    spark: SparkSession,
    rows: list[tuple[int, str, int, float]],
    shapes: list[tuple[int, int]],
    since: int,
) -> None:
    plan = plan_of(shapes, since)
    points = pa.Table.from_pylist(
        [
            {"route": r, "key": k, "ts": ts, "due": ts, "value": v, "entity": f"e{number % 3}"}
            for number, (r, k, ts, v) in enumerate(rows)
        ],
        ROUTED,
    )
    after = {window.id: since for window in plan.windows}
    frame = spark.createDataFrame(batch_points(points, plan.panes))
    found = lower(frame, Computation(plan=plan, after=after)).toArrow()
    values = {(r["insight"], r["key"], r["ts"]): r["value"] for r in found.to_pylist()}
    expected = oracle(points, plan)

    assert values.keys() == expected.keys()
    for identity, value in expected.items():
        assert values[identity] == pytest.approx(value, rel=1e-9, abs=1e-6), identity
    assert set(found["revision"].to_pylist()) <= {0}


def test_spark_is_warmed_up_without_a_failure(spark: SparkSession) -> None:
    warm_up(spark)


def test_only_the_scan_lies_below_the_watermark(spark: SparkSession, tmp_path: Path) -> None:
    plan = plan_of([(5000, 1000)])
    points = generate_points(spark, 5, entity=F.lit("e"), frontier=F.col("timestamp"))
    after = {window.id: 0 for window in plan.windows}
    results = lower(points, Computation(plan=plan, after=after, pane_folder=tmp_path / "panes"))
    checkpoint = str(tmp_path / "checkpoint")
    query = results.writeStream.format("noop").option("checkpointLocation", checkpoint).start()
    try:
        eventually(lambda: query.lastProgress, timeout=60, what="a micro-batch")
        explained = query._jsq.explainInternal(True)
    finally:
        query.stop()

    optimised = explained.split("== Optimized Logical Plan ==")[1].split("== Physical")[0]
    names = [re.sub(r"^[\s:+~\-]*", "", line).split(" ")[0] for line in optimised.splitlines()]
    watermark = names.index("EventTimeWatermark")
    assert "Filter" in names[:watermark]
    assert not {"Filter", "Aggregate"} & set(names[watermark + 1 :])
