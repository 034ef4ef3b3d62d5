"""The catalogue: the metadata and the latest value of each series that this agent stores.

The catalogue is in memory, and is derived from the segments of the stream ``raw``. A checkpoint in
Ignite contains the catalogue, and the position before which all segments were applied to it. After
a restart, the agent reads the checkpoint and applies the later segments.
"""

import time
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Any
from weakref import ref

import numpy as np
import pyarrow as pa

from mistbow.runtime.slices import STORED, Slices
from mistbow.streams.json_numbers import is_stale
from storage_agent.ignite.client import IgniteClient
from storage_agent.series import Metadata, Series, series_of
from storage_agent.streams.columns import as_list
from storage_agent.streams.index import EARLIEST, IndexEntry
from storage_agent.streams.log import StreamLog
from storage_agent.streams.segments import Segment
from storage_agent.timeseries.checkpoint import CatalogueStore
from storage_agent.timeseries.selection import SeriesSelection, description_of
from storage_agent.timeseries.series_index import LatestValue, SeriesIndex

_MAX_REPLAY_SEGMENTS = 32

_SLICE = 500
"""The number of points that are applied between two looks at the clock."""


@dataclass(frozen=True, slots=True)
class _SharedSelection:
    """The last selection of all series, which concurrent reads share while it is in use.

    A copy of the index takes tens of milliseconds for a million series, and blocks the event loop.
    ``changes``: the number of changes of the index before the selection. ``expired_before``: the
    latest values that arrived before this time (ms) are left out.
    """

    selection: ref[SeriesSelection]
    changes: int
    expired_before: int

    def of(self, changes: int, expired_before: int) -> SeriesSelection | None:
        """Return the selection without expired latest values; None: the index has changed."""
        selection = self.selection()
        if selection is None or changes != self.changes or expired_before < self.expired_before:
            return None
        if expired_before == self.expired_before:
            return selection
        current = selection.has_latest & (selection.created >= expired_before)
        return replace(selection, has_latest=current)


def never_expired() -> int:
    """Return the time (ms) before which values have expired: none has."""
    return EARLIEST


class Catalogue:
    """The series that this agent stores, keyed by (metric, entity).

    ``expired_before``: returns the time (ms) before which values that arrived have expired.
    """

    def __init__(self, expired_before: Callable[[], int] = never_expired) -> None:
        self._expired_before = expired_before
        self._index = SeriesIndex()
        self._store = CatalogueStore(self._index)
        self._applied = 0
        self._checkpointed = 0
        self._shared: _SharedSelection | None = None
        # The descriptions of the series that were removed since the application of a segment began;
        # None: no segment is being applied.
        self._removed: dict[Series, bytes] | None = None

    def __len__(self) -> int:
        return len(self._index)

    @property
    def revision(self) -> int:
        """The number of changes of series and their metadata; changes of values do not count."""
        return self._index.revision

    def contains(self, series: Series) -> bool:
        """Return whether the catalogue contains a series."""
        return bool(self._index.number(*series))

    def metrics(self) -> list[str]:
        """Return the names of all metrics."""
        return [name for name in self._index.metrics.values if name is not None]

    def metadata(self, series: Series) -> Metadata | None:
        """Return the metadata of a series; None: the catalogue does not contain the series."""
        number = self._index.number(*series)
        return self._index.metadata(number) if number else None

    def description(self, metric: str, entity: str) -> bytes | None:
        """Return the metadata of a series without metric and entity, as JSON.

        Equal descriptions are the same object. None: the catalogue does not contain the series.
        """
        index = self._index
        number = index.number(metric, entity)
        return index.description(number) if number else None

    def latest(self, series: Series) -> LatestValue | None:
        """Return the latest value of a series; None: there is no value, or the value expired."""
        latest = self.stored_latest(series)
        return None if latest is None or latest.created < self._expired_before() else latest

    def stored_latest(self, series: Series) -> LatestValue | None:
        """Return the latest value of a series, even an expired value; None: there is no value."""
        number = self._index.number(*series)
        return self._index.latest(number) if number else None

    def version(self, series: Series) -> int:
        """Return a number that differs after each change of the latest value of a series.

        0: the series has no latest value.
        """
        number = self._index.number(*series)
        return self._index.version.view[number] if number else 0

    def checkpointed_position(self) -> int:
        """Return the position in ``raw`` before which the checkpoint includes all segments."""
        return self._checkpointed

    async def expire(self) -> tuple[list[Series], list[Series]]:
        """Remove the series whose points have all expired; return them, and the series to recheck.

        The latest value of a series to recheck has expired, but other points have not: they have
        earlier timestamps and arrived later. The caller must set another latest value.
        """
        index, before = self._index, self._expired_before()
        part = slice(index.size)
        expired = (index.version.array[part] > 0) & (index.created.array[part] < before)
        removed, left = [], []
        async for number in Slices().over(np.flatnonzero(expired).tolist()):
            # The series may have received a point, or its number may belong to another series now.
            if not index.version.view[number] or index.created.view[number] >= before:
                continue
            series = index.series(number)
            if index.seen.view[number] < before:
                self._remove(number)
                removed.append(series)
            else:
                left.append(series)
        return removed, left

    def set_latest(self, series: Series, latest: LatestValue | None) -> None:
        """Replace the latest value of a series after points were removed.

        ``latest``: None removes the series.
        """
        number = self._index.number(*series)
        if not number:
            return
        if latest is None:
            self._remove(number)
        else:
            self._index.set_latest(number, latest.ts, latest.value, latest.created, latest.seen)
            self._store.mark(number)

    def select(
        self, metrics: Collection[str] = (), entities: Collection[str] = ()
    ) -> SeriesSelection:
        """Return the series with the given metrics and entities; an empty collection matches all.

        Expired latest values are left out.
        """
        index, before = self._index, self._expired_before()
        if metrics or entities:
            return index.select(index.find(metrics, entities), before)
        last = self._shared
        shared = None if last is None else last.of(index.changes, before)
        if shared is None:
            shared = index.select_all(before)
            self._shared = _SharedSelection(ref(shared), index.changes, before)
        return shared

    def count_of_metric(self, metric: str) -> int:
        """Return the number of series of a metric."""
        return self._index.count_of_metric(metric)

    def count_of_entity(self, entity: str) -> int:
        """Return the number of series of an entity."""
        return self._index.count_of_entity(entity)

    async def apply(self, segment: Segment) -> list[Metadata]:
        """Apply a segment of ``raw``; return the metadata of the new and changed series.

        Other tasks may run meanwhile. If another task removes a series of the segment, the points
        of the segment add the series again with its metadata. A checkpoint that is stored meanwhile
        may contain a part of the segment; a restart applies the segment again.
        """
        self._removed = {}
        try:
            changed = await self._apply(segment)
        finally:
            self._removed = None
        self._applied = segment.next
        return changed

    async def _apply(self, segment: Segment) -> list[Metadata]:
        changed = list(segment.header.series)
        slices = Slices(kind=STORED)
        async for metadata in slices.over(segment.header.series):
            self.describe(series_of(metadata), metadata)
        for rows in (segment.rows, segment.future_points):
            for begin in range(0, rows.num_rows, _SLICE):
                await slices.pause()
                part = rows.slice(begin, _SLICE)
                changed += self._apply_points(part, segment.header.created)
        return changed

    async def recover(self, ignite: IgniteClient, metadata: dict[str, Any], raw: StreamLog) -> None:
        """Read the checkpoint, and apply the segments and runs after it.

        ``metadata``: the entries of the metadata cache in Ignite.
        """
        self._applied = self._checkpointed = await self._store.recover(ignite, metadata)
        entries = list(raw.index.entries_from(self._applied))
        slices = Slices()
        while entries:
            if entries[0].blocks:
                await self._replay_run(raw, entries.pop(0))
                continue
            segments = list(
                takewhile(lambda entry: not entry.blocks, entries[:_MAX_REPLAY_SEGMENTS])
            )
            for segment in await raw.segments(segments):
                await self.apply(segment)
                await slices.pause()
            del entries[: len(segments)]

    @property
    def is_rebuilt(self) -> bool:
        """Whether the checkpoint was damaged, so that points without metadata were applied."""
        return self._store.is_damaged

    async def restore_metadata(self, published: Iterable[tuple[Series, Metadata]]) -> None:
        """Restore the metadata of series; add those whose points are all at other sites.

        ``published``: the series that this site has published, with their metadata.
        """
        async for series, metadata in Slices().over(published):
            if self.description(*series) in (None, b"{}"):
                self.describe(series, metadata)

    async def _replay_run(self, raw: StreamLog, entry: IndexEntry) -> None:
        """Apply those points of a run that are not applied yet; runs contain no metadata."""
        [extent] = await raw.extents([entry])
        segments = extent.segments
        slices = Slices()
        columns = (each.tolist() for each in (segments.first, segments.next, segments.created))
        for first, end, created in zip(*columns, strict=True):
            if end > self._applied:
                rows = extent.select(max(first, self._applied), end)
                self._apply_points(rows.batch, created)
                await slices.pause()
        self._apply_points(extent.pending_points(raw.future_points.released), entry.created)
        self._applied = entry.next

    async def checkpoint(self, ignite: IgniteClient) -> float:
        """Write the changes since the last checkpoint to Ignite; return how long this took (s).

        After an error, the next checkpoint includes the changes that were not stored.
        """
        begin = time.monotonic()
        applied = self._applied
        await self._store.write(ignite, applied)
        self._checkpointed = applied
        return time.monotonic() - begin

    def describe(self, series: Series, metadata: Metadata) -> None:
        """Add or replace the metadata of a series."""
        self._store.mark(self._index.set_description(series, description_of(metadata)))

    def _remove(self, number: int) -> None:
        if self._removed is not None:
            self._removed[self._index.series(number)] = self._index.description(number)
        self._index.remove(number)
        self._store.mark(number)

    def _apply_points(self, rows: pa.RecordBatch, created: int) -> list[Metadata]:
        found = []
        columns = (as_list(rows[name]) for name in ("metric", "entity", "ts", "value"))
        # Local names, since the loop runs once per stored point.
        index, mark = self._index, self._store.mark
        number_of, set_latest = index.number, index.set_latest
        for metric, entity, ts, value in zip(*columns, strict=True):
            number = number_of(metric, entity)
            if not number:
                # The series was removed after these points were encoded: the segment does not have
                # its metadata, or the removal came while the segment was applied.
                description = (self._removed or {}).get((metric, entity), b"{}")
                number = index.set_description((metric, entity), description)
                mark(number)
                found.append(index.metadata(number))
            is_newer = index.ts.view[number] <= ts and not (value != value and is_stale(value))
            if is_newer or not index.version.view[number]:
                set_latest(number, ts, value, created, created)
                mark(number)
            else:
                # The version changes in any case, so that a recheck reads the row of the point.
                index.see(number, max(created, index.seen.view[number]))
                mark(number)
        return found
