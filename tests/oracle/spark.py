"""Results of a plan over a drawn stream, by real Spark: in one batch, and batch by batch."""

import os
import uuid
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from analytics_worker.spark.lowering import lower
from analytics_worker.spark.source import FRONTIER, GATHERED_WITH_FRONTIER
from mistbow.panes.gathering import GATHERED, gathered
from mistbow.panes.routing import route
from mistbow.plan.nodes import Plan
from tests.oracle.data import UNTIL_MS, Stream
from tests.support.points import Row, points

_END_OF_TIME = 2 * UNTIL_MS


def in_a_batch(spark: SparkSession, stream: Stream, plan: Plan) -> pa.Table:
    """Return the results (``RESULT_ROWS``) of a plan over all points at once."""
    rows = gathered(route(points(stream.rows), plan.panes), plan.panes)
    return lower(spark.createDataFrame(rows), plan, _after(plan), revision=0).toArrow()


def in_a_stream(spark: SparkSession, stream: Stream, plan: Plan, folder: Path) -> pa.Table:
    """Return the results of a streaming query to which the points come as they are drawn.

    Each file is a micro-batch: the points that come together, and the frontier after them.
    """
    files = folder / "points"
    files.mkdir()
    for number, table in zip(count(), _routed(stream, plan), strict=False):
        file = files / f"{number:03}.parquet"
        pq.write_table(table, file)
        os.utime(file, (1e9 + number, 1e9 + number))  # Spark takes them in this order
    rows = (
        spark.readStream.schema(from_arrow_schema(GATHERED_WITH_FRONTIER))
        .option("maxFilesPerTrigger", 1)
        .parquet(str(files))
    )
    name = f"drawn_{uuid.uuid4().hex}"
    query = (
        lower(rows, plan, _after(plan), revision=0)
        .writeStream.format("memory")
        .queryName(name)
        .outputMode("append")
        .option("checkpointLocation", str(folder / "checkpoint"))
        .start()
    )
    try:
        query.processAllAvailable()
        dropped = sum(
            operator.numRowsDroppedByWatermark
            for progress in query.recentProgress
            for operator in progress.stateOperators
        )
        assert dropped == 0, f"{dropped} rows came too late for Spark"
        return spark.table(name).toArrow()
    finally:
        query.stop()
        spark.catalog.dropTempView(name)


def _after(plan: Plan) -> dict[str, int]:
    return {window.id: 0 for window in plan.windows}


def _routed(stream: Stream, plan: Plan) -> Iterator[pa.Table]:
    for rows, frontier in stream.batches():
        yield _with_frontier(rows, plan, frontier)
    # Two: the windows of the last panes close behind those.
    yield _with_frontier([], plan, _END_OF_TIME)
    yield _with_frontier([], plan, _END_OF_TIME + 1)


def _with_frontier(rows: list[Row], plan: Plan, frontier: int) -> pa.Table:
    some = gathered(route(points(rows), plan.panes), plan.panes)
    told = pa.table(
        {**{field.name: pa.nulls(1, field.type) for field in GATHERED},
         FRONTIER.name: pa.array([1000 * frontier], pa.int64()).cast(FRONTIER.type)},
        schema=GATHERED_WITH_FRONTIER,
    )  # fmt: skip
    nothing = pa.nulls(some.num_rows, FRONTIER.type)
    return pa.concat_tables([some.append_column(FRONTIER, nothing), told])
