"""Lowering: from a plan to one Spark query, however many insights it has.

points → (watermark by frontier) → panes → results. Spark's own aggregation makes the panes, a
native stateful stage; windows and insights are made of these in Arrow, for all at once. Over
several sites, one query at each makes the panes, and another one the results. The same functions
take a streaming DataFrame and a batch one.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import msgspec
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from analytics_worker.computing import Computation
from analytics_worker.spark.contents import (
    NUMBERS,
    PANE_COLUMNS,
    missing_in_panes,
    numbers_of_points,
    of_points,
)
from analytics_worker.windowing.windows import PLACED
from mistbow.plan.nodes import Pane

_RESULT_DDL = (
    "insight string, key string, ts bigint, value double, values array<double>, low double, "
    "high double, confidence double, text string, revision bigint, computed_at bigint, "
    "missing string"
)
_BATCH = "streaming.sql.batchId"


def lower(points: DataFrame, computation: Computation) -> DataFrame:
    """Return the results (``RESULT_ROWS``) of a computation over points (``GATHERED``)."""
    panes = to_panes(_held(points), computation.plan.panes).withColumn("due", F.unix_millis("due"))
    return lower_merge(panes, computation)


def lower_partial(points: DataFrame, panes: Sequence[Pane], after: int) -> DataFrame:
    """Return the panes (``PANES``) of ``GATHERED`` points that close later than ``after`` (ms)."""
    ids = F.array(*[F.lit(pane.id) for pane in panes])
    made = to_panes(_held(points), panes)
    return (
        made.select("*", *missing_in_panes(made.columns))
        .withColumn("due", F.unix_millis("due"))
        .where(F.col("due") > after)
        .where(F.col("route").isNotNull())
        .select(
            F.element_at(ids, F.col("route") + 1).alias("pane"),
            "key",
            F.col("pane").alias("ts"),
            "due",
            *PANE_COLUMNS,
        )
    )


def lower_merge(panes: DataFrame, computation: Computation) -> DataFrame:
    """Return the results (``RESULT_ROWS``) of a computation over panes (``PLACED``)."""
    compute = _compute_all
    if panes.isStreaming:
        assert computation.kept is not None  # noqa: S101 - see there
        # Here, not where it is written: a task that outlives its query must not make it again.
        computation.kept.mkdir(parents=True, exist_ok=True)
        compute = _compute_next
    return panes.mapInArrow(partial(compute, computation), _RESULT_DDL)


def _held(points: DataFrame) -> DataFrame:
    if points.isStreaming:
        return hold_watermark(points)
    # A batch corrects what is closed: there, a point counts from its own time on.
    return points.withColumn("due", F.col("ts"))


def hold_watermark(points: DataFrame) -> DataFrame:
    """Let the frontier be the watermark; heartbeats, which have no route, are due at theirs.

    So they close with it, and tell then that it has come. A filter for points that Spark pushed
    below the watermark would remove them before they are seen. It pushes none below an
    expression that is not deterministic.
    """
    marked = points.withWatermark("frontier", "0 seconds")
    return marked.where(F.spark_partition_id() >= 0).withColumn(
        "due", F.coalesce("due", F.unix_millis("frontier"))
    )


def event_time(milliseconds: Column, name: str) -> Column:
    """Return a computed time as a column that Spark's stateful operators close by.

    Spark tags event time by column metadata, and a computed column loses it.
    """
    return F.timestamp_millis(milliseconds).alias(name, metadata={"spark.watermarkDelayMs": 0})


def to_panes(points: DataFrame, panes: Sequence[Pane]) -> DataFrame:
    """Aggregate points by pane: (due, pane, route, key) with what these panes carry.

    A pane is named by its end. ``due`` is when it closes: its own end, or for points that came
    late that of the first pane that was still open.
    """
    widths = _constant([pane.width_ms for pane in panes], "array<bigint>")
    width = F.coalesce(F.element_at(widths, F.col("route") + 1), F.lit(1))
    contents = [pane.contents for pane in panes]
    return (
        points.select(
            "route",
            "key",
            "value",
            "ts",
            *NUMBERS,
            "entity",
            "draw",
            _up(F.col("ts"), width).alias("pane"),
            event_time(_up(F.col("due"), width), "due"),
        )
        .groupBy("due", "pane", "route", "key")
        .agg(*numbers_of_points(), *of_points(contents))
    )


def _constant(value: Any, kind: str) -> Column:
    """Return a value as a Column of a type.

    As JSON it is one expression, which Spark folds: of arrays and structs it would go through all
    parts, hundreds or thousands, for each rule of its optimizer, in each micro-batch.
    """
    return F.from_json(F.lit(msgspec.json.encode(value).decode()), kind)


def _up(time: Column, step: Column) -> Column:
    return time + F.pmod(-time, step)


def _compute_next(
    computation: Computation, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    task = TaskContext.get()
    batch = None if task is None else task.getLocalProperty(_BATCH)
    if batch is None:
        raise RuntimeError(f"Spark does not tell the number of a micro-batch, {_BATCH}")
    yield from computation.next_results(_table(batches), int(batch)).to_batches()


def _compute_all(
    computation: Computation, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    yield from computation.all_results(_table(batches)).to_batches()


def _table(batches: Iterator[pa.RecordBatch]) -> pa.Table:
    held = list(batches)
    return pa.Table.from_batches(held).combine_chunks() if held else PLACED.empty_table()
