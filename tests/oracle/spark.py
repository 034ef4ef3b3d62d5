"""The results of a plan by real Spark: in one batch, over two sites, and in micro-batches."""

import os
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from analytics.plan.nodes import Plan
from analytics_worker.evaluate.computation import Computation
from analytics_worker.evaluate.windows.windows import ROUTED_PANES
from analytics_worker.panes.batching import BATCHED, batch_points
from analytics_worker.panes.routing import route
from analytics_worker.spark.lowering import lower, lower_merge, lower_partial
from analytics_worker.spark.panes_source import routed_panes
from analytics_worker.spark.source import BATCHED_WITH_FRONTIER, FRONTIER
from analytics_worker.stateful.state_stream import StateAccess
from tests.oracle.data import UNTIL_MS, Stream
from tests.oracle.trials import Trial, rename_metrics
from tests.support.conditions import eventually
from tests.support.points import Row, points

_END_OF_TIME = 2 * UNTIL_MS


def in_a_batch(spark: SparkSession, trials: Sequence[Trial], plans: Sequence[Plan]) -> pa.Table:
    """Return the results (``RESULT_ROWS``) of plans over the points of all trials, as one batch."""
    return in_one_batch(spark, points(_rows_of(trials)), plans)


def _rows_of(trials: Sequence[Trial]) -> list[Row]:
    return [
        row for index, each in enumerate(trials) for row in rename_metrics(each.stream.rows, index)
    ]


def in_one_batch(spark: SparkSession, given: pa.RecordBatch, plans: Sequence[Plan]) -> pa.Table:
    """Return the results (``RESULT_ROWS``) of plans over points, as one batch."""
    return pa.concat_tables([_in_a_batch(spark, given, plan) for plan in plans])


def _in_a_batch(spark: SparkSession, given: pa.RecordBatch, plan: Plan) -> pa.Table:
    rows = batch_points(route(given, plan.panes), plan.panes)
    return lower(spark.createDataFrame(rows), Computation(plan=plan, after=_after(plan))).toArrow()


def over_two_sites(spark: SparkSession, trials: Sequence[Trial], plans: Sequence[Plan]) -> pa.Table:
    """Return the results (``RESULT_ROWS``) of plans over the merged panes of two sites.

    Each site has the points of some entities of all trials.
    """
    rows = _rows_of(trials)
    sites = [[row for row in rows if int(row.entity[-1]) % 2 == number] for number in range(2)]
    return pa.concat_tables([_merged(spark, sites, plan) for plan in plans])


def _merged(spark: SparkSession, sites: Sequence[list[Row]], plan: Plan) -> pa.Table:
    ids = [pane.id for pane in plan.panes]
    panes: list[pa.RecordBatch] = []
    for rows in sites:
        given = batch_points(route(points(rows), plan.panes), plan.panes)
        made = lower_partial(spark.createDataFrame(given), plan.panes, after=-1)
        panes += routed_panes(made.toArrow(), ids, closed=-1)
    merged = spark.createDataFrame(pa.Table.from_batches(panes, ROUTED_PANES)).coalesce(1)
    return lower_merge(merged, Computation(plan=plan, after=_after(plan))).toArrow()


@dataclass(frozen=True)
class Breaks:
    """The micro-batches at which a query stops, by number.

    ``pauses``: the query stops after the micro-batch; ``aborts``: the query stops in the
    micro-batch.
    """

    pauses: frozenset[int]
    aborts: frozenset[int]


@dataclass(frozen=True)
class Streamed:
    """A streaming query over a random stream, in a folder of its own.

    Each file is a micro-batch: points that arrive together, and the frontier after these points.
    After a break, the query continues from its checkpoint. ``access``: the stream in which
    accumulators store states.
    """

    spark: SparkSession
    folder: Path
    plan: Plan
    access: StateAccess | None

    def results(self, stream: Stream, breaks: Breaks) -> pa.Table:
        """Return all results (``RESULT_ROWS``) over a stream; the query stops at the breaks."""
        self._points.mkdir(parents=True)
        for number, table in enumerate(_gathered(stream, self.plan)):
            file = self._points / f"{number:03}.parquet"
            pq.write_table(table, file)
            os.utime(file, (1e9 + number, 1e9 + number))  # Spark takes them in this order
            if number in breaks.pauses | breaks.aborts:
                self._run(whole=number in breaks.pauses)
        self._run(whole=True)
        return self.spark.read.parquet(str(self._said)).toArrow()

    @property
    def _points(self) -> Path:
        return self.folder / "points"

    @property
    def _said(self) -> Path:
        return self.folder / "results"

    @property
    def _checkpoint(self) -> Path:
        return self.folder / "checkpoint"

    @property
    def _computation(self) -> Computation:
        return Computation(
            plan=self.plan,
            after=_after(self.plan),
            access=self.access,
            pane_folder=self.folder / "panes",
        )

    def _run(self, *, whole: bool) -> None:
        """Run the query until it has read all points.

        ``whole``: False: stop the query in the middle of a micro-batch.
        """
        rows = (
            self.spark.readStream.schema(from_arrow_schema(BATCHED_WITH_FRONTIER))
            .option("maxFilesPerTrigger", 1)
            .parquet(str(self._points))
        )
        query = (
            lower(rows, self._computation)
            .writeStream.format("parquet")
            .option("path", str(self._said))
            .option("checkpointLocation", str(self._checkpoint))
            .outputMode("append")
            .start()
        )
        try:
            if whole:
                query.processAllAvailable()
            else:
                eventually(
                    lambda: query.status["isTriggerActive"], timeout=60, what="a micro-batch begins"
                )
            dropped = sum(
                operator.numRowsDroppedByWatermark
                for progress in query.recentProgress
                for operator in progress.stateOperators
            )
            assert dropped == 0, f"{dropped} rows came too late for Spark"
        finally:
            query.stop()
        if not any(self._checkpoint.glob("offsets/[0-9]*")):
            # Cut off in its very first entry, which Spark refuses to go on from.
            shutil.rmtree(self._checkpoint)


def _after(plan: Plan) -> dict[str, int]:
    return {window.id: 0 for window in plan.windows}


def _gathered(stream: Stream, plan: Plan) -> Iterator[pa.Table]:
    latest = 0
    for rows, frontier in stream.batches():
        # Only a frontier that advances needs a heartbeat.
        yield _with_frontier(rename_metrics(rows, 0), plan, frontier if frontier > latest else None)
        latest = max(latest, frontier)
    # Two: the windows of the last panes close behind those.
    yield _with_frontier([], plan, _END_OF_TIME)
    yield _with_frontier([], plan, _END_OF_TIME + 1)


def _with_frontier(rows: list[Row], plan: Plan, frontier: int | None) -> pa.Table:
    some = batch_points(route(points(rows), plan.panes), plan.panes)
    heartbeat = pa.table(
        {**{field.name: pa.nulls(1, field.type) for field in BATCHED},
         FRONTIER.name: pa.array([1000 * (frontier or 0)], pa.int64()).cast(FRONTIER.type)},
        schema=BATCHED_WITH_FRONTIER,
    )  # fmt: skip
    points_alone = some.append_column(FRONTIER, pa.nulls(some.num_rows, FRONTIER.type))
    return points_alone if frontier is None else pa.concat_tables([points_alone, heartbeat])
