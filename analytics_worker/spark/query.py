"""One running Spark query, its failure, and the options of the source of points."""

import json
import re
import shutil
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from itertools import takewhile
from pathlib import Path
from typing import Any

import msgspec
from pyspark.sql import DataFrame
from pyspark.sql.streaming.listener import StreamingQueryProgress
from pyspark.sql.streaming.query import StreamingQuery

from analytics.plan.fragments import Fragment, StreamLocation
from analytics.plan.nodes import Pane
from analytics_worker.query_lease import QueryLease
from analytics_worker.spark.failure_summary import summarize
from analytics_worker.spark.query_cpu import QueryCpu
from analytics_worker.streaming_library import Counts, QueryFailure
from mistbow.errors import ERRORS, FencedError, UnavailableError

_MAX_OFFSETS = 1000
USAGE = "usage"
"""The name of the folder in which the Python processes of a query record their CPU time."""


def _line_of(error: type[Exception]) -> re.Pattern[str]:
    """Return a pattern of the line of a Python traceback that names ``error``, or an error of a
    subclass, as the error.
    """
    kinds = [kind for kind in ERRORS if issubclass(kind, error)]
    names = "|".join(re.escape(f"{kind.__module__}.{kind.__qualname__}") for kind in kinds)
    return re.compile(rf"^(?:{names})(?:: |$)", re.MULTILINE)


_FENCED_LINE = _line_of(FencedError)
_UNAVAILABLE_LINE = _line_of(UnavailableError)


def parse_failure(text: str) -> QueryFailure:
    """Convert the text of an error from Spark to a ``QueryFailure``.

    Errors are recognized by text only here, because nothing else arrives: the sink and the sources
    run in Python processes of Spark, whose errors reach the JVM as the text of a traceback
    (``PythonException``), and py4j passes on that text without a type or a code.

    >>> parse_failure("Traceback ...\\nmistbow.errors.FencedError: epoch 3 is newer").is_fenced
    True
    >>> parse_failure("Traceback ...\\nValueError: no mistbow.errors.FencedError").is_fenced
    False
    >>> parse_failure("Traceback ...\\nmistbow.errors.LostDataError: lost rows").is_unavailable
    True
    """
    is_fenced = _FENCED_LINE.search(text) is not None
    is_unavailable = _UNAVAILABLE_LINE.search(text) is not None
    return QueryFailure(text, is_fenced, summarize(text), is_unavailable)


class FragmentQuery:
    """The Spark query of a fragment, which the constructor starts.

    ``rows``: the DataFrame whose rows are written. ``target``: the options of the sink. ``folder``:
    the folder for the state of the query, with the folder ``USAGE`` of its usage. ``lease``: the
    lease under which the query writes.
    ``decided``: the position in the stream of decisions at which the decisions of a merge's query
    begin.
    """

    def __init__(
        self,
        fragment: Fragment,
        rows: DataFrame,
        target: Mapping[str, str | int],
        folder: Path,
        lease: QueryLease,
        decided: int = 0,
    ) -> None:
        self.fragment = fragment
        self.lease = lease
        self.decided = decided
        self.frontier = 0
        self.counts = Counts()
        self._last_batch = -1
        self._offsets: deque[dict[str, Any]] = deque(maxlen=_MAX_OFFSETS)
        self._folder = folder
        (folder / USAGE).mkdir(parents=True, exist_ok=True)
        self._query: StreamingQuery = (
            rows.writeStream.format("mistbow-sink")
            .queryName(f"{fragment.id}-{fragment.fingerprint}-{folder.name}")
            .outputMode("append")
            .options(**target, usage=str(folder / USAGE))
            .option("checkpointLocation", str(folder / "checkpoint"))
            .start()
        )
        self._cpu = QueryCpu(rows.sparkSession, self._query, folder / USAGE)

    def observe(self) -> None:
        """Update ``frontier`` (ms) and ``counts`` from the micro-batches that have ended."""
        # To read all of Spark's progress takes longer than to see that there is nothing new.
        newest = self._query._jsq.lastProgress()
        if newest is None or newest.batchId() <= self._last_batch:
            return
        for progress in self._new_updates():
            if progress.batchId <= self._last_batch:
                continue
            self._last_batch = progress.batchId
            # Spark has no offset before the first read.
            offset = json.loads(progress.sources[0].endOffset or "null") or {}
            self._offsets.append(offset)
            self.frontier = max(self.frontier, offset.get("closed", 0))
            self.counts += Counts(
                batches=1,
                rows_dropped=sum(op.numRowsDroppedByWatermark for op in progress.stateOperators),
                spent_ms=Counter(progress.durationMs),
            )
        before = self._cpu.usage
        self._cpu.measure(self.counts.batches)
        usage = self._cpu.usage
        self.counts += Counts(
            cpu_s=usage.cpu_s - before.cpu_s, rows_read=usage.rows_read - before.rows_read
        )

    def _new_updates(self) -> list[StreamingQueryProgress]:
        """Return Spark's updates since the last observation, the oldest first.

        Spark retains more updates, and each conversion from Java takes CPU time.
        """
        newest_first = reversed(self._query._jsq.recentProgress())
        new = takewhile(lambda update: update.batchId() > self._last_batch, newest_first)
        return [StreamingQueryProgress.fromJson(json.loads(each.json())) for each in new][::-1]

    def read_to(self, frontier: int | None = None) -> Any:
        """Return the source's position (``next``) after the newest micro-batch.

        ``frontier``: micro-batches with a later frontier (ms) are ignored; None: no micro-batch is
        ignored. Return None if no micro-batch remains.
        """
        for offset in reversed(self._offsets):
            if frontier is None or offset.get("frontier", 0) <= frontier:
                return offset.get("next")
        return None

    @property
    def begun(self) -> bool:
        """Whether the sources have started, the most expensive part of the query's start."""
        message: str = self._query.status["message"]
        return not message.startswith("Initializing")

    @property
    def failure(self) -> QueryFailure | None:
        """The failure that ended the query; None while the query runs."""
        if self._query.isActive:
            return None
        error = self._query.exception()
        return (
            QueryFailure("the Spark query has stopped")
            if error is None
            else parse_failure(str(error))
        )

    def stop(self) -> None:
        """Stop the query and delete its state; a later query replays the source."""
        self.lease.delete()
        self._query.stop()
        shutil.rmtree(self._folder, ignore_errors=True)


def points_options(
    url: str, location: StreamLocation, panes: Sequence[Pane], grain_ms: int
) -> dict[str, str]:
    """Return the options with which the source ``mistbow`` routes a stream's points to panes."""
    feed = location.feed
    return {
        **({} if feed is msgspec.UNSET else {"feed": msgspec.json.encode(feed).decode()}),
        "url": url,
        "site": location.site,
        "stream": location.stream,
        "panes": msgspec.json.encode(tuple(panes)).decode(),
        "grain": str(grain_ms),
    }
