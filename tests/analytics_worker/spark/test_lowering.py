"""The lowering against the oracle: DuckDB over the same points, in one batch."""

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

from analytics_worker.computing import Computation
from analytics_worker.spark.lowering import lower
from analytics_worker.spark.session import generated, warm_up
from mistbow.panes.gathering import gathered
from mistbow.panes.routing import ROUTED
from mistbow.plan.contents import CONTENT_OF
from mistbow.plan.expressions import Function, Measure, Parameters, Source
from mistbow.plan.nodes import Insight, Pane, Plan, Window
from tests.support.waiting import eventually

LOGS = "list_avg(list_transform(l, lambda x: ln(x)))"
MEASURES: dict[tuple[Function, Parameters], str] = {
    ("SUM", ()): "list_sum(l)",
    ("COUNT", ()): "len(l)",
    ("MIN", ()): "list_min(l)",
    ("MAX", ()): "list_max(l)",
    ("AVG", ()): "list_avg(l)",
    ("SDEV", ()): "list_stddev_pop(l)",
    ("VARIANCE", ()): "list_var_pop(l)",
    ("GEOMETRIC_MEAN", ()): f"case when list_min(l) > 0 then exp({LOGS}) end",
    ("LATEST", ()): "list_max(points).value",
    ("MEDIAN", ()): "list_median(l)",
    ("PERCENTILE", (90.0,)): "list_aggregate(l, 'quantile_cont', 0.9)",
    ("MODE", ()): """(select v from (select unnest(l) as v)
                      group by v order by count(*) desc, v limit 1)""",
    ("TOP_K", (3.0,)): "list_reverse_sort(l)[least(3, len(l))]",
    ("OUTLIER_DETECTION", (2.0, 2.0)): """len(list_filter(l, lambda x:
                      len(list_filter(l, lambda y: abs(x - y) <= 2)) <= 2))""",
}
"""What each function comes to in SQL; ``l`` are the values."""
WINDOWS = ((1000, 1000), (5000, 1000), (4000, 2000), (1000, 5000), (6000, 3000))
OFFSET_MS = 3000
_END = 20_000


def plan_of(shapes: list[tuple[int, int]], since: int = 0) -> Plan:
    """Return a plan with all functions over each window shape, over two panes."""
    width = math.gcd(*(number for shape in shapes for number in shape))
    width = math.gcd(width, OFFSET_MS)
    contents = tuple(sorted({one for one in CONTENT_OF.values() if one is not None}))
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
    """Return (insight, key, tick) → value by the definition of a window, with DuckDB."""
    expected = {}
    places = {pane.id: place for place, pane in enumerate(plan.panes)}
    windows = {window.id: window for window in plan.windows}
    for insight in plan.insights:
        assert isinstance(insight.expression, Measure)
        window = windows[insight.expression.window]
        rows = duckdb.execute(
            f"""
            with grouped as (
                select key, t, list(value) as l, list(struct_pack(ts, value, entity)) as points
                from range(0, {_END + 10_000}, {window.every_ms}) as ticks(t), points
                where route = {places[window.pane]} and ts > t - {window.reach_ms}
                  and ts <= t - {window.offset_ms} and t > {insight.since}
                group by key, t
            )
            select key, t, {MEASURES[insight.expression.function, insight.expression.parameters]}
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
def test_a_batch_equals_the_oracle(
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
    frame = spark.createDataFrame(gathered(points, plan.panes))
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
    points = generated(spark, 5, entity=F.lit("e"), frontier=F.col("timestamp"))
    after = {window.id: 0 for window in plan.windows}
    results = lower(points, Computation(plan=plan, after=after, kept=tmp_path / "panes"))
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
