"""Lowering: from a plan to one Spark query, however many insights it has.

points → (watermark by frontier) → panes → windows → results; two native stateful stages. Over
several sites, one query at each makes the panes, and another one their windows and results. The
same functions take a streaming DataFrame and a batch one.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from analytics_worker.accumulating.stored import Account, states_for
from analytics_worker.composition import compose
from analytics_worker.finishing import WINDOWED
from analytics_worker.results import as_results
from analytics_worker.spark.contents import (
    NUMBERS,
    PANE_COLUMNS,
    missing_in_panes,
    numbers_of_panes,
    numbers_of_points,
    of_panes,
    of_points,
)
from analytics_worker.troubles import Tell, unheard
from mistbow.plan.nodes import Pane, Plan

_RESULT_DDL = (
    "insight string, key string, ts bigint, value double, values array<double>, low double, "
    "high double, confidence double, text string, revision bigint, computed_at bigint, "
    "missing string"
)

_SPEC = "window:int,width:bigint,size:bigint,offset:bigint,every:bigint,phase:bigint,after:bigint"


def lower(
    points: DataFrame,
    plan: Plan,
    after: Mapping[str, int],
    revision: int,
    account: Account | None = None,
    tell: Tell = unheard,
) -> DataFrame:
    """Return the results (``RESULT_ROWS``) of a lowered plan over points (``GATHERED``).

    ``after`` gives for each window the time (ms) that its ticks must be later than: before it,
    windows would be partial. ``revision`` is that of the results. What accumulates goes on from the
    states of ``account``; without one, from nothing. ``tell`` is called in Spark's processes.
    """
    panes = to_panes(_held(points), plan.panes).withColumn("due", F.unix_millis("due"))
    return _to_results(panes, plan, after, revision, account, tell)


def lower_partial(points: DataFrame, panes: Sequence[Pane], after: int) -> DataFrame:
    """Return the panes (``PANES``) of ``GATHERED`` points that close later than ``after`` (ms)."""
    ids = F.array(*[F.lit(pane.id) for pane in panes])
    return (
        to_panes(_held(points), panes)
        .withColumn("due", F.unix_millis("due"))
        .where(F.col("due") > after)
        .select(
            F.element_at(ids, F.col("route") + 1).alias("pane"),
            "key",
            F.col("pane").alias("ts"),
            "due",
            *PANE_COLUMNS,
        )
    )


def lower_merge(
    panes: DataFrame,
    plan: Plan,
    after: Mapping[str, int],
    revision: int,
    account: Account | None = None,
    tell: Tell = unheard,
) -> DataFrame:
    """Do as ``lower`` over the panes (``PANE_ROWS``) of several sites."""
    held = hold_watermark(panes) if panes.isStreaming else panes.where(F.col("route").isNotNull())
    return _to_results(held, plan, after, revision, account, tell)


def _held(points: DataFrame) -> DataFrame:
    if points.isStreaming:
        return hold_watermark(points)
    # A batch corrects what is closed: there, a point counts from its own time on.
    return points.withColumn("due", F.col("ts"))


def _to_results(
    panes: DataFrame,
    plan: Plan,
    after: Mapping[str, int],
    revision: int,
    account: Account | None,
    tell: Tell,
) -> DataFrame:
    composed = partial(_compose_partition, msgspec.json.encode(plan), revision, account, tell)
    return to_windows(panes, plan, after).mapInArrow(composed, _RESULT_DDL)


def hold_watermark(points: DataFrame) -> DataFrame:
    """Let the frontier be the watermark, and drop the heartbeats that carry it.

    Heartbeats have no point: a filter for points that Spark pushed below the watermark would
    remove them before they are seen. It pushes none below an expression that is not
    deterministic.
    """
    marked = points.withWatermark("frontier", "0 seconds")
    return marked.where(F.spark_partition_id() >= 0).where(F.col("route").isNotNull())


def event_time(milliseconds: Column, name: str) -> Column:
    """Return a computed time as a column that Spark's stateful operators close by.

    Spark tags event time by column metadata, and a computed column loses it.
    """
    return F.timestamp_millis(milliseconds).alias(name, metadata={"spark.watermarkDelayMs": 0})


def to_panes(points: DataFrame, panes: Sequence[Pane]) -> DataFrame:
    """Aggregate points by pane: (due, pane, route, key) with what panes carry.

    A pane is named by its end. ``due`` is when it closes: its own end, or for points that came
    late that of the first pane that was still open.
    """
    widths = _constant([pane.width_ms for pane in panes], "array<bigint>")
    width = F.element_at(widths, F.col("route") + 1)
    contents = [pane.contents for pane in panes]
    cut = (
        points.select(
            "route",
            "key",
            "value",
            "ts",
            *NUMBERS,
            "entity",
            "draw",
            _up(F.col("ts"), width, F.lit(0)).alias("pane"),
            event_time(_up(F.col("due"), width, F.lit(0)), "due"),
        )
        .groupBy("due", "pane", "route", "key")
        .agg(*numbers_of_points(), *of_points(contents))
    )
    return cut.select("due", "pane", "route", "key", *_carried(cut), *missing_in_panes(contents))


def _carried(rows: DataFrame) -> list[str]:
    return [name for name in rows.columns if name in PANE_COLUMNS]


def to_windows(panes: DataFrame, plan: Plan, after: Mapping[str, int]) -> DataFrame:
    """Aggregate panes (``due`` in ms) by the windows that they belong to.

    The shape is ``WINDOWED``, without the columns that no window of the plan has.
    """
    window = F.col("spec")
    placed = panes.select(
        "pane",
        "key",
        *PANE_COLUMNS,
        "due",
        F.explode(F.element_at(_windows_of_routes(plan, after), F.col("route") + 1)).alias("spec"),
    )
    # A pane (e - width, e] is in the window (t - size, t] if e <= t and t <= e - width + size.
    shifted = F.col("pane") + window["offset"]
    earliest = F.greatest(shifted, F.col("due"), window["after"] + 1)
    latest = shifted - window["width"] + window["size"]
    ticked = placed.select(
        "key",
        *PANE_COLUMNS,
        window["window"].alias("window"),
        window["every"].alias("every"),
        _up(earliest, window["every"], window["phase"]).alias("first"),
        _down(latest, window["every"], window["phase"]).alias("last"),
    ).where("first <= last")
    contents = [window.contents for window in plan.windows]
    joined = (
        ticked.withColumn("tick", F.explode(F.sequence("first", "last", "every")))
        .withColumn("tick", event_time(F.col("tick"), "tick"))
        .groupBy("tick", "window", "key")
        .agg(*numbers_of_panes(), *of_panes(contents, "window"))
    )
    made = [name for name in WINDOWED.names if name in joined.columns]
    return joined.withColumn("tick", F.unix_millis("tick")).select(*made)


def _windows_of_routes(plan: Plan, after: Mapping[str, int]) -> Column:
    """Return, as a constant, the windows of each pane of the plan, by the pane's place."""
    of_routes = [
        [
            {
                "window": place,
                "width": pane.width_ms,
                "size": window.span_ms,
                "offset": window.offset_ms,
                "every": window.every_ms,
                "phase": phase,
                "after": after[window.id],
            }
            for place, window in enumerate(plan.windows)
            if window.pane == pane.id
            # Where clocks change, what ends at no tick is left out by composition.
            for phase in window.ticks.phases
        ]
        for pane in plan.panes
    ]
    return _constant(of_routes, f"array<array<struct<{_SPEC}>>>")


def _constant(value: Any, kind: str) -> Column:
    """Return a value as a Column of a type.

    As JSON it is one expression, which Spark folds: of arrays and structs it would go through all
    parts, hundreds or thousands, for each rule of its optimizer, in each micro-batch.
    """
    return F.from_json(F.lit(msgspec.json.encode(value).decode()), kind)


def _up(time: Column, step: Column, phase: Column) -> Column:
    return time + F.pmod(phase - time, step)


def _down(time: Column, step: Column, phase: Column) -> Column:
    return time - F.pmod(time - phase, step)


def _compose_partition(
    encoded: bytes,
    revision: int,
    account: Account | None,
    tell: Tell,
    batches: Iterator[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    rows = _table(batches)
    if rows.num_rows == 0:
        return
    plan = msgspec.json.decode(encoded, type=Plan)
    # States are stored before the results that come of them: who goes on from these finds them.
    with states_for(account, plan, pc.min(rows["tick"]).as_py()) as states:
        composed = compose(rows, plan, states, tell)
    yield from as_results(composed, revision).to_batches()


def _table(batches: Iterator[pa.RecordBatch]) -> pa.Table:
    """Return windows as ``WINDOWED``; columns that no window has are added here, at less cost."""
    held = list(batches)
    if not held:
        return WINDOWED.empty_table()
    rows = pa.Table.from_batches(held).combine_chunks()
    columns = [
        rows[field.name].cast(field.type)
        if field.name in rows.column_names
        else pa.nulls(rows.num_rows, field.type)
        for field in WINDOWED
    ]
    return pa.table(columns, schema=WINDOWED)
