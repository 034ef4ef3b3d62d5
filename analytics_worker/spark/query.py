"""One running Spark query, and the options of the sources that queries read."""

import json
import shutil
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery

from analytics_worker.streaming_library import Counts
from mistbow.plan.fragments import Fragment, Place
from mistbow.plan.nodes import Pane, Plan

_REMEMBERED = 1000


class FragmentQuery:
    """A fragment's streaming query; it starts at once, and its state is in a ``folder``.

    ``decided``: from this number on, the stream of a merge's decisions tells what it found late.
    """

    def __init__(
        self,
        fragment: Fragment,
        rows: DataFrame,
        target: Mapping[str, str | int],
        folder: Path,
        decided: int = 0,
    ) -> None:
        self.fragment = fragment
        self.decided = decided
        self.frontier = 0
        self.counts = Counts()
        self._seen_batch = -1
        self._ends: deque[dict[str, Any]] = deque(maxlen=_REMEMBERED)
        self._folder = folder
        self._query: StreamingQuery = (
            rows.writeStream.format("mistbow-sink")
            .queryName(f"{fragment.id}-{fragment.fingerprint}-{folder.name}")
            .outputMode("append")
            .options(**target)
            .option("checkpointLocation", str(folder / "checkpoint"))
            .start()
        )

    def observe(self) -> None:
        """Take in how far the query is: ``frontier`` (ms) is complete, ``counts`` is done."""
        # To read all of what Spark tells takes longer than to see that there is nothing new.
        newest = self._query._jsq.lastProgress()
        if newest is None or newest.batchId() <= self._seen_batch:
            return
        for progress in self._query.recentProgress:
            if progress.batchId <= self._seen_batch:
                continue
            self._seen_batch = progress.batchId
            # Where nothing was read yet, Spark has none.
            end = json.loads(progress.sources[0].endOffset or "null") or {}
            self._ends.append(end)
            self.frontier = max(self.frontier, end.get("closed", 0))
            self.counts += Counts(
                batches=1,
                rows_dropped=sum(op.numRowsDroppedByWatermark for op in progress.stateOperators),
                spent_ms=Counter(progress.durationMs),
            )

    def read_to(self, frontier: int | None = None) -> Any:
        """Return the ``next`` of the source's offset after the newest batch, or after the newest
        one that ended at or before an event time (ms); None where there is none.
        """
        for end in reversed(self._ends):
            if frontier is None or end.get("frontier", 0) <= frontier:
                return end.get("next")
        return None

    @property
    def begun(self) -> bool:
        """Whether its sources are there, so that the worst of its start is over."""
        message: str = self._query.status["message"]
        return not message.startswith("Initializing")

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
        shutil.rmtree(self._folder, ignore_errors=True)


def points_options(url: str, place: Place, panes: Sequence[Pane], grain_ms: int) -> dict[str, str]:
    """Return the options of the source ``mistbow`` for routed points."""
    feed = place.feed
    return {
        **({} if feed is msgspec.UNSET else {"feed": msgspec.json.encode(feed).decode()}),
        "url": url,
        "site": place.site,
        "stream": place.stream,
        "panes": msgspec.json.encode(tuple(panes)).decode(),
        "grain": str(grain_ms),
    }


def panes_options(url: str, sources: Sequence[Place], plan: Plan) -> dict[str, str]:
    """Return the options of the source ``mistbow-panes``."""
    return {
        "url": url,
        "sources": msgspec.json.encode(tuple(sources)).decode(),
        "panes": msgspec.json.encode([pane.id for pane in plan.panes]).decode(),
        "grain": str(plan.grain_ms),
    }
