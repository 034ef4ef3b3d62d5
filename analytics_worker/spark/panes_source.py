"""The Spark source ``mistbow-panes``: the panes of several sites as one streaming DataFrame.

Options: ``url`` (of the agent), ``sources`` and ``decisions`` (JSON of ``StreamLocation``),
``checkpoint`` (JSON of ``Checkpoint``: where the decisions are read from),
``panes`` (JSON of the panes' ids, in the order of the plan), ``starts`` (JSON: the first position
at each site), ``unsought`` (JSON: the sites that were unreachable; once a site answers, the site's
rows after the time ``needs``, in ms, are read), ``resumed`` (JSON: the sites whose panes an earlier
query has read), ``recorded`` (JSON: for each site, the position before which an earlier query has
recorded the late panes), ``usage`` (the folder in which CPU time and rows are recorded), ``grain``
(ms: how often windows close), ``patience`` (ms: how long to wait for a silent site), ``since`` (ms:
results up to ``since`` are stored), ``after`` (ms: only later ticks are written), ``lease`` (JSON
of ``QueryLease``), ``target`` (JSON of ``StreamLocation``) and ``fingerprint`` (the query decides
which sites are missing only if ``fingerprint`` equals the target's attribute ``decides``). A batch
DataFrame has ``min_ts`` and ``max_ts`` (ms, inclusive) instead of the streaming options.
"""

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import stamina
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
)
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from analytics.plan.fragments import StreamLocation
from analytics_worker.agent_clients import agent_client
from analytics_worker.evaluate.windows.windows import ROUTED_PANES
from analytics_worker.merge.decisions import Late, LateSpan, SiteDecision
from analytics_worker.spark.pane_columns import PANE_COLUMNS
from analytics_worker.spark.panes_options import PanesOptions
from analytics_worker.spark.site_watcher import SiteWatcher, store_decision
from analytics_worker.spark.task_usage import record_usage
from mistbow.errors import LostDataError, UnavailableError

_MAX_WAIT_S = 0.25
_MAX_FIRST_WAIT_S = 2.0
"""The time (s) for which the first micro-batch after stored results waits for a further tick.

Spark runs this micro-batch in any case, even if it closes nothing, and it is the most expensive.
"""

_RETRY_S = 0.3
_MAX_RETRY_S = 3.0
"""The time (s) for which a failed read of a site is repeated, since its agent may restart.

A longer time would delay the next query, which can decide that the site is missing.
"""


class PanesSource(DataSource):
    """The Spark source that is registered under the name ``mistbow-panes``."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "mistbow-panes"

    def schema(self) -> StructType:
        """Return the columns of ``ROUTED_PANES``, as a schema of Spark."""
        return from_arrow_schema(ROUTED_PANES)

    def streamReader(self, schema: StructType) -> "PanesStreamReader":  # noqa: ARG002, N802
        """Return the reader of a streaming query."""
        return PanesStreamReader(PanesOptions.parse(self.options))

    def reader(self, schema: StructType) -> "PanesBatchReader":  # noqa: ARG002
        """Return the reader of a batch query."""
        return PanesBatchReader(PanesOptions.parse(self.options))


@dataclass(frozen=True)
class PaneRange(InputPartition):
    """The rows of a micro-batch: for each site, the rows from a position to an end (exclusive).

    Windows up to ``closed`` (ms) are already closed. Windows up to ``closing`` (ms) close with
    these rows. ``absent``: the sites that are missing in this micro-batch.
    """

    starts: dict[str, int]
    ends: dict[str, int]
    closed: int
    closing: int
    absent: tuple[str, ...] = ()


class PanesStreamReader(DataSourceStreamReader):
    """Reads the panes of all sites; a micro-batch starts when all panes up to a promised tick have
    arrived.

    As in the source of points, a micro-batch promises a tick at which the next micro-batch closes
    windows (docs/adr/0002). It closes all windows whose panes have arrived, up to a limit: no
    watermark of Spark limits a merge.
    """

    def __init__(self, options: PanesOptions) -> None:
        self._options = options
        self._watcher: SiteWatcher | None = None

    def __getstate__(self) -> dict[str, Any]:
        # The tasks of Spark read with a copy; only the source of the driver watches the sites.
        return {"_options": self._options, "_watcher": None}

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        """Return the offset at which a new query begins: the positions in the option ``starts``."""
        options = self._options
        sites = [location.data_site for location in options.sources]
        starts = {site: options.starts.get(site, 0) for site in sites}
        promise = options.since // options.grain_ms * options.grain_ms
        return {"next": starts, "frontier": 0, "promise": promise, "closed": 0}

    def latestOffset(self, start: dict[str, Any], limit: Any) -> dict[str, Any]:  # noqa: ARG002, N802
        """Return the end offset of the next batch, or ``start`` if it is too early for a batch."""
        try:
            return self._next_offset(start)
        finally:
            record_usage(self._options.usage)

    def _next_offset(self, start: dict[str, Any]) -> dict[str, Any]:
        watcher, promise = self._watcher, start["promise"]
        if watcher is None:
            self._watcher = watcher = SiteWatcher(self._options, start["next"])
            wait_s = _MAX_FIRST_WAIT_S if self._options.since else _MAX_WAIT_S
            progress, frontier = watcher.first(wait_s, promise)
        else:
            progress = watcher.progress(_MAX_WAIT_S, promise)
            frontier = watcher.frontier(progress, promise)
        if frontier < promise:
            return start
        closed = watcher.merge.reached(frontier, promise)
        # A site that has left may have rows that cannot be read before it is back.
        unreadable = watcher.unreachable & set(watcher.absent(promise))
        return {
            "next": {
                site: start["next"][site]
                if site in unreadable
                else max(one.next, start["next"][site])
                for site, one in progress.items()
            },
            "frontier": frontier,
            "promise": watcher.merge.next_promise(closed),
            "closed": closed,
        }

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[PaneRange]:
        """Return one partition, since panes are few.

        Spark always runs the first micro-batch, even without new rows. This micro-batch needs a
        partition, too, since its task must record that no window is closed.
        """
        absent = () if self._watcher is None else self._watcher.absent(start["promise"])
        closed, closing = start["closed"], end["closed"]
        return [PaneRange(start["next"], end["next"], closed, closing, absent)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the panes, and then a row without a route, which closes the windows."""
        assert isinstance(partition, PaneRange)  # noqa: S101 - made by partitions()
        options = self._options
        ranges = partition.starts, partition.ends
        for site, rows, is_recorded in _read_all(options, *ranges, max_attempts=None):
            record_usage(options.usage, rows.num_rows)
            if rows.num_rows:
                if not is_recorded:
                    # The ticks after a site has left are corrected anyway once it joins.
                    closed = 0 if site in partition.absent else partition.closed
                    _store_late_panes(options, site, rows, closed)
                yield from routed_panes(rows, options.panes, partition.closed)
        record_usage(options.usage)
        yield pa.RecordBatch.from_pylist([{"due": partition.closing}], ROUTED_PANES)


class PanesBatchReader(DataSourceReader):
    """Reads, in one batch, all panes that end in a span of time, from all sites."""

    def __init__(self, options: PanesOptions) -> None:
        self._options = options

    def partitions(self) -> Sequence[PaneRange]:
        """Return one partition, which covers all sites."""
        return [PaneRange({}, {}, 0, 0)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:  # noqa: ARG002
        """Yield the panes; ``due`` of a pane is the pane's end, since a batch corrects closed
        windows.
        """
        options = self._options
        for _, rows, _ in _read_all(options, {}, {}):
            if rows.num_rows:
                timely = rows.set_column(rows.column_names.index("due"), "due", rows["ts"])
                yield from routed_panes(timely, options.panes, 0)


_SiteRange = tuple[StreamLocation, int, int | None]
"""(the panes of a site, the first position, the end (exclusive); None: up to the head)"""


def _ranges(
    options: PanesOptions, starts: Mapping[str, int], ends: Mapping[str, int]
) -> Iterator[_SiteRange]:
    """Yield the ranges of rows to read; a range ends where recorded late panes end."""
    for location in options.sources:
        site = location.data_site
        start, end, recorded = starts.get(site, 0), ends.get(site), options.recorded.get(site, 0)
        if start < recorded and (end is None or recorded < end):
            yield location, start, recorded
            start = recorded
        if end is None or start < end:
            yield location, start, end


def _read_all(
    options: PanesOptions,
    starts: Mapping[str, int],
    ends: Mapping[str, int],
    *,
    max_attempts: int | None = 1,
) -> Iterator[tuple[str, pa.Table, bool]]:
    """Yield (site, rows, whether an earlier query has recorded the late panes in these rows).

    The sites are read concurrently, since latency dominates. ``max_attempts``: the number of
    attempts to read a site that does not answer; None: as many as begin within ``_MAX_RETRY_S``.
    """
    ranges = list(_ranges(options, starts, ends))

    def read(range_: _SiteRange) -> tuple[str, pa.Table, bool]:
        location, start, end = range_
        site = location.data_site
        for attempt in stamina.retry_context(
            on=_may_answer_soon, attempts=max_attempts, timeout=_MAX_RETRY_S,
            wait_initial=_RETRY_S, wait_max=_RETRY_S, wait_jitter=0,
        ):  # fmt: skip
            with attempt:
                rows = read_once(location, start, end)
        return site, rows, end is not None and end <= options.recorded.get(site, 0)

    def read_once(location: StreamLocation, start: int, end: int | None) -> pa.Table:
        client, site = agent_client(options.url, location.site), location.data_site
        if site in options.unsought and start == options.starts[site]:
            start = min(start, client.seek(location.stream, options.needs))
        match = {"pane": list(options.panes)}
        return client.read(
            location.stream, start, end, match=match, min_ts=options.min_ts, max_ts=options.max_ts
        ).table

    if not ranges:
        return
    with ThreadPoolExecutor(len(ranges)) as pool:
        yield from pool.map(read, ranges)


def _may_answer_soon(error: Exception) -> bool:
    return isinstance(error, UnavailableError) and not isinstance(error, LostDataError)


def routed_panes(rows: pa.Table, panes: Sequence[str], closed: int) -> Iterator[pa.RecordBatch]:
    """Convert panes to ``ROUTED_PANES``; late panes become due in the first open window.

    ``closed``: the time (ms) up to which windows are closed.
    """
    ids = rows["pane"].cast(pa.string())
    routed = pa.table(
        {
            "route": pc.index_in(ids, pa.array(panes, pa.string())),
            "key": rows["key"].cast(pa.string()),
            "pane": rows["ts"],
            "due": pc.max_element_wise(rows["due"], pa.scalar(closed + 1, pa.int64())),
            **{name: rows[name] for name in PANE_COLUMNS},
        },
        schema=ROUTED_PANES,
    )
    yield from routed.filter(pc.is_valid(routed["route"])).combine_chunks().to_batches()


def _store_late_panes(options: PanesOptions, site: str, rows: pa.Table, closed: int) -> None:
    """Store the spans of late panes in the stream of decisions, before windows include the panes.

    ``closed``: the time (ms) up to which windows are closed.
    """
    due = pc.max_element_wise(rows["due"], pa.scalar(closed + 1, pa.int64()))
    late = rows.set_column(rows.column_names.index("due"), "due", due)
    late = late.filter(pc.less(late["ts"], late["due"]))
    if not late.num_rows:
        return
    named = late.set_column(0, "pane", late["pane"].cast(pa.string()))
    grouped = named.group_by("pane", use_threads=False).aggregate(
        [("ts", "min"), ("ts", "max"), ("due", "max")]
    )
    spans = tuple(
        LateSpan(row["pane"], row["ts_min"], row["ts_max"], row["due_max"])
        for row in grouped.to_pylist()
    )
    store_decision(options, SiteDecision(closed, site, Late(spans)))
