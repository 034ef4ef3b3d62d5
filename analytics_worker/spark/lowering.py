"""Lowering: translates a plan into one Spark query, regardless of the number of insights.

The query computes panes from points, and results from panes; the frontier of the points is Spark's
watermark. Spark's native stateful aggregation computes the panes; Arrow functions compute the
windows and insights of all panes at once. For several sites, one query at each site computes panes,
and another query computes the results. The functions accept streaming DataFrames and batch
DataFrames.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from analytics.plan.nodes import Pane
from analytics_worker.evaluate.computation import Computation
from analytics_worker.evaluate.windows.windows import ROUTED_PANES
from analytics_worker.spark.pane_columns import (
    NUMBERS,
    PANE_COLUMNS,
    missing_in_panes,
    numbers_of_points,
    of_points,
)
from analytics_worker.spark.task_usage import record_usage

_RESULT_DDL = (
    "insight string, key string, ts bigint, value double, values array<double>, low double, "
    "high double, confidence double, text string, revision bigint, computed_at bigint, "
    "missing string"
)
_BATCH = "streaming.sql.batchId"
_Compute = Callable[[Computation, Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def lower(points: DataFrame, computation: Computation, usage: Path | None = None) -> DataFrame:
    """Return the results (``RESULT_ROWS``) of a computation over points (``BATCHED``).

    ``usage``: the folder in which the computation records its CPU time.
    """
    panes = to_panes(_with_due(points), computation.plan.panes).withColumn(
        "due", F.unix_millis("due")
    )
    return lower_merge(panes, computation, usage)


def lower_partial(points: DataFrame, panes: Sequence[Pane], after: int) -> DataFrame:
    """Return the panes (``PANES``) that close after ``after`` (ms), computed from points
    (``BATCHED``).
    """
    ids = F.array(*[F.lit(pane.id) for pane in panes])
    made = to_panes(_with_due(points), panes)
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


def lower_merge(panes: DataFrame, computation: Computation, usage: Path | None = None) -> DataFrame:
    """Return the results (``RESULT_ROWS``) that a computation has for panes (``ROUTED_PANES``).

    ``usage``: the folder in which the computation records its CPU time.
    """
    compute: _Compute = _compute_all
    if panes.isStreaming:
        assert computation.pane_folder is not None  # noqa: S101 - see there
        # Not by the tasks: a task that outlives its query must not create the folder again.
        computation.pane_folder.mkdir(parents=True, exist_ok=True)
        compute = partial(_compute_next, usage)
    return panes.mapInArrow(partial(compute, computation), _RESULT_DDL)


def _with_due(points: DataFrame) -> DataFrame:
    if points.isStreaming:
        return with_frontier_as_watermark(points)
    # A batch corrects closed windows, in which a point counts from its own time on.
    return points.withColumn("due", F.col("ts"))


def with_frontier_as_watermark(points: DataFrame) -> DataFrame:
    """Return points with Spark's watermark set to the column ``frontier``.

    A heartbeat is a row without a route that carries a frontier. The frontier becomes the ``due``
    of the heartbeat, so Spark passes the heartbeat on when the watermark passes the frontier, and
    the heartbeat closes windows. The expression is non-deterministic on purpose: else Spark would
    push the filter for points below the watermark, which would remove the heartbeats.
    """
    marked = points.withWatermark("frontier", "0 seconds")
    return marked.where(F.spark_partition_id() >= 0).withColumn(
        "due", F.coalesce("due", F.unix_millis("frontier"))
    )


def event_time(milliseconds: Column, name: str) -> Column:
    """Return a computed time (ms) as an event time column, by which Spark closes groups.

    Spark marks event time by metadata of the column, which a computed column loses.
    """
    return F.timestamp_millis(milliseconds).alias(name, metadata={"spark.watermarkDelayMs": 0})


def to_panes(points: DataFrame, panes: Sequence[Pane]) -> DataFrame:
    """Return points aggregated by (due, pane, route, key), with the contents of each pane.

    ``pane``: the end of the pane. ``due``: when the pane closes: at its end; for late points, at
    the end of the first pane that was still open.
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
            _round_up(F.col("ts"), width).alias("pane"),
            event_time(_round_up(F.col("due"), width), "due"),
        )
        .groupBy("due", "pane", "route", "key")
        .agg(*numbers_of_points(), *of_points(contents))
    )


def _constant(value: Any, kind: str) -> Column:
    """Return a constant value as a column.

    JSON is one expression, which Spark folds. An array or struct would have hundreds of
    expressions, which each rule of Spark's optimizer would visit in each micro-batch.
    """
    return F.from_json(F.lit(msgspec.json.encode(value).decode()), kind)


def _round_up(time: Column, step: Column) -> Column:
    return time + F.pmod(-time, step)


def _compute_next(
    usage: Path | None, computation: Computation, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    task = TaskContext.get()
    batch = None if task is None else task.getLocalProperty(_BATCH)
    if batch is None:
        raise RuntimeError(f"Spark did not set {_BATCH}, the number of the micro-batch")
    results = computation.next_results(_table(batches), int(batch))
    record_usage(usage)
    yield from results.to_batches()


def _compute_all(
    computation: Computation, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    yield from computation.all_results(_table(batches)).to_batches()


def _table(batches: Iterator[pa.RecordBatch]) -> pa.Table:
    received = list(batches)
    return (
        pa.Table.from_batches(received).combine_chunks() if received else ROUTED_PANES.empty_table()
    )
