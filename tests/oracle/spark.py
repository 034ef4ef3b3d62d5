"""Results of a plan over a drawn stream, by real Spark: in one batch, and batch by batch."""

import os
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from analytics_worker.accumulating.stored import Account
from analytics_worker.computing import Computation
from analytics_worker.spark.lowering import lower
from analytics_worker.spark.source import FRONTIER, GATHERED_WITH_FRONTIER
from mistbow.panes.gathering import GATHERED, gathered
from mistbow.panes.routing import route
from mistbow.plan.nodes import Plan
from tests.oracle.data import UNTIL_MS, Stream
from tests.oracle.running import Trial, told_apart
from tests.support.points import Row, points
from tests.support.waiting import eventually

_END_OF_TIME = 2 * UNTIL_MS


def in_a_batch(spark: SparkSession, trials: Sequence[Trial], plans: Sequence[Plan]) -> pa.Table:
    """Return the results (``RESULT_ROWS``) of plans over all points of all trials at once."""
    rows = [row for place, each in enumerate(trials) for row in told_apart(each.stream.rows, place)]
    return pa.concat_tables([_in_a_batch(spark, points(rows), plan) for plan in plans])


def _in_a_batch(spark: SparkSession, given: pa.RecordBatch, plan: Plan) -> pa.Table:
    rows = gathered(route(given, plan.panes), plan.panes)
    return lower(spark.createDataFrame(rows), Computation(plan=plan, after=_after(plan))).toArrow()


@dataclass(frozen=True)
class Breaks:
    """After which micro-batches a query is stopped: when it has done them, or in their midst."""

    pauses: frozenset[int]
    aborts: frozenset[int]


@dataclass(frozen=True)
class Streamed:
    """A streaming query to which points come as they are drawn, in a folder of its own.

    Each file is a micro-batch: the points that come together, and the frontier after them. Where
    it breaks, it goes on from its checkpoint. What accumulates does so by an ``account``.
    """

    spark: SparkSession
    folder: Path
    plan: Plan
    account: Account | None

    def results(self, stream: Stream, breaks: Breaks) -> pa.Table:
        """Return all results (``RESULT_ROWS``) over a stream."""
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
            account=self.account,
            kept=self.folder / "panes",
        )

    def _run(self, *, whole: bool) -> None:
        """Run the query until it has read what there is, or else stop it in a micro-batch."""
        rows = (
            self.spark.readStream.schema(from_arrow_schema(GATHERED_WITH_FRONTIER))
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
    told = 0
    for rows, frontier in stream.batches():
        # What was told already would come too late.
        yield _with_frontier(told_apart(rows, 0), plan, frontier if frontier > told else None)
        told = max(told, frontier)
    # Two: the windows of the last panes close behind those.
    yield _with_frontier([], plan, _END_OF_TIME)
    yield _with_frontier([], plan, _END_OF_TIME + 1)


def _with_frontier(rows: list[Row], plan: Plan, frontier: int | None) -> pa.Table:
    some = gathered(route(points(rows), plan.panes), plan.panes)
    told = pa.table(
        {**{field.name: pa.nulls(1, field.type) for field in GATHERED},
         FRONTIER.name: pa.array([1000 * (frontier or 0)], pa.int64()).cast(FRONTIER.type)},
        schema=GATHERED_WITH_FRONTIER,
    )  # fmt: skip
    points_alone = some.append_column(FRONTIER, pa.nulls(some.num_rows, FRONTIER.type))
    return points_alone if frontier is None else pa.concat_tables([points_alone, told])
