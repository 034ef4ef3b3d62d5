"""One running Spark query: a fragment's plan, from a stream to a stream."""

import itertools
import math
import shutil
from dataclasses import dataclass
from datetime import datetime

import msgspec
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from analytics_worker.resumption import Resumption
from analytics_worker.spark.lowering import lower
from analytics_worker.spark.session import scratch_folder
from mistbow.plan.nodes import Fragment, Plan

_numbers = itertools.count()
_SAFE_ROWS = 400_000


@dataclass(frozen=True, slots=True)
class Counts:
    """What a query has done so far."""

    batches: int = 0
    rows_dropped: int = 0
    computed_windows: int = 0

    def __add__(self, other: "Counts") -> "Counts":
        return Counts(
            self.batches + other.batches,
            self.rows_dropped + other.rows_dropped,
            self.computed_windows + other.computed_windows,
        )


class FragmentQuery:
    """A fragment's streaming query; starts at once and reads from number ``start``."""

    def __init__(
        self,
        spark: SparkSession,
        url: str,
        fragment: Fragment,
        resumption: Resumption,
        *,
        start: int,
        epoch: int,
    ) -> None:
        self.fragment = fragment
        self.resumption = resumption
        self.frontier = 0
        self.counts = Counts()
        self._seen_batch = -1
        number = next(_numbers)
        self._checkpoint = scratch_folder() / f"query-{number}"
        points = (
            spark.readStream.format("mistbow")
            .options(**_options(url, fragment.source, resumption.plan), start=start)
            .options(max_rows=_SAFE_ROWS)
            .load()
        )
        results = lower(points, resumption.plan, resumption.after, revision=0)
        self._query: StreamingQuery = (
            results.writeStream.format("mistbow-sink")
            .queryName(f"{fragment.id}-{fragment.fingerprint}-{number}")
            .outputMode("append")
            .options(url=url, stream=fragment.target, epoch=epoch)
            .option("checkpointLocation", str(self._checkpoint))
            .start()
        )

    def observe(self) -> None:
        """Take in how far the query is: ``frontier`` (ms) is complete, ``counts`` is done."""
        for progress in self._query.recentProgress:
            if progress.batchId <= self._seen_batch:
                continue
            self._seen_batch = progress.batchId
            watermark = progress.eventTime.get("watermark")
            if watermark is not None:
                self.frontier = max(self.frontier, _milliseconds(watermark))
            operators = progress.stateOperators
            self.counts += Counts(
                batches=1,
                rows_dropped=sum(op.numRowsDroppedByWatermark for op in operators),
                computed_windows=operators[0].numRowsRemoved if operators else 0,
            )

    @property
    def error(self) -> str | None:
        """Why the query has ended, or None while it runs."""
        if self._query.isActive:
            return None
        failure = self._query.exception()
        return str(failure) if failure is not None else "the query has stopped"

    def stop(self) -> None:
        """Stop the query and forget its state: a later one replays."""
        self._query.stop()
        shutil.rmtree(self._checkpoint, ignore_errors=True)


def recompute(
    spark: SparkSession,
    url: str,
    fragment: Fragment,
    plan: Plan,
    after: dict[str, int],
    *,
    numbers: tuple[int, int],
    times: tuple[int, int],
) -> pa.Table:
    """Compute a plan's results again, in a batch over stored points.

    Reads the rows with ``numbers`` (from, to exclusive) and ``times`` (ms, both inclusive); the
    results' revision is the number up to which rows were considered. Shape ``RESULT_ROWS``.
    """
    points: DataFrame = (
        spark.read.format("mistbow")
        .options(**_options(url, fragment.source, plan))
        .options(start=numbers[0], end=numbers[1], min_ts=times[0], max_ts=times[1])
        .load()
    )
    return lower(points, plan, after, revision=numbers[1]).toArrow()


def _options(url: str, stream: str, plan: Plan) -> dict[str, str]:
    return {
        "url": url,
        "stream": stream,
        "panes": msgspec.json.encode(plan.panes).decode(),
        "grain": str(math.gcd(*(window.every_ms for window in plan.windows))),
    }


def _milliseconds(timestamp: str) -> int:
    return round(datetime.fromisoformat(timestamp).timestamp() * 1000)
