"""Reads local and offloaded points by series and time."""

import asyncio
from collections.abc import (
    AsyncIterator,
    Callable,
    Collection,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from typing import Protocol, TypeVar

import pyarrow as pa

from mistbow.client.fields import MAX_TIMESTAMP_MS
from mistbow.errors import MistbowError, TooLargeError, UnavailableError
from mistbow.runtime.slices import Slices
from mistbow.streams.json_numbers import is_stale
from mistbow.streams.schemas import POINTS
from storage_agent.series import Metadata, Series
from storage_agent.streams.columns import KeyMatcher, as_list
from storage_agent.streams.extents import Extent
from storage_agent.streams.future_points import select_times
from storage_agent.streams.index import IndexEntry
from storage_agent.streams.log import StreamLog
from storage_agent.streams.runs import MAX_BLOCKS, hash_series
from storage_agent.timeseries.duplicates import read_distinct
from storage_agent.timeseries.grouped_points import COLUMNS, GroupedPoints
from storage_agent.work_threads import MAX_LOOP_ITEMS, in_thread_if_many

T = TypeVar("T")

MAX_POINTS = 1_000_000

_MAX_BATCH_PARTS = 32
_MAX_BATCH_ROWS = 50_000
_LOOK_BACK_MS = (60_000, 600_000, 7_200_000, 86_400_000, 30 * 86_400_000, MAX_TIMESTAMP_MS)
_MAX_LOOP_ROWS = 5_000
"""The maximum number of rows that are filtered in the event loop; a thread filters more rows."""


@dataclass(frozen=True, slots=True)
class _PointFilter:
    """A filter that selects the points of some series from ``start`` to ``end`` (ms, inclusive).

    ``columns``: the columns of the selected points to return.
    """

    keys: KeyMatcher
    start: int
    end: int
    columns: list[str]

    def apply(self, batches: Sequence[pa.RecordBatch]) -> list[pa.RecordBatch]:
        selected = []
        needed = list({"metric", "entity", "ts", *self.columns})
        for batch in batches:
            rows = batch.select(needed)
            # By series first: most rows of a block are of other series, few of other times.
            of_series = rows.filter(self.keys.mask([rows["metric"], rows["entity"]]))
            selected.append(select_times(of_series, self.start - 1, self.end).select(self.columns))
        return selected


ReadPoints = Callable[[Collection[Series], int, int], AsyncIterator[pa.RecordBatch]]
"""A function that yields the points of series from one time to another (ms, inclusive).

The batches have the columns ``COLUMNS``.
"""


class RemoteSeries(Protocol):
    """The series of one offload: their points up to the time ``to`` (ms) are at another site.

    The other site has all such points whose positions in ``raw`` are before ``before``. Late points
    at later positions may be only at this site.
    """

    @property
    def series(self) -> Collection[Series]:
        """The series whose points were offloaded."""
        ...

    @property
    def to(self) -> int:
        """The greatest timestamp (ms) of offloaded points."""
        ...

    @property
    def before(self) -> int:
        """The position in ``raw`` before which the other site has all offloaded points."""
        ...

    def read(
        self, start: int, end: int, columns: Sequence[str], reached: int
    ) -> AsyncIterator[pa.RecordBatch]:
        """Yield the points from ``start`` to ``end`` (ms, inclusive) from the other site.

        The points at positions before ``reached`` are included, even if they were late.
        """
        ...

    def reason(self, start: int, end: int, error: str) -> str:
        """Return a message that names the error and the points that could not be read."""
        ...


class RemotePoints(Protocol):
    """Reads the points of this site that were offloaded to other sites."""

    def among(self, series: Collection[Series]) -> Iterable[RemoteSeries]:
        """Return the offloaded series among ``series``: a ``RemoteSeries`` for each offload.

        Each series is in at most one ``RemoteSeries``.
        """
        ...

    def reading(self) -> AbstractContextManager[None]:
        """Return a context manager; inside the context, offloads remove no local points."""
        ...

    async def latest(self, series: Collection[Series]) -> dict[Series, tuple[int, float]]:
        """Return series -> (time in ms, value) of the latest offloaded point.

        Raises ``MistbowError`` if a site that stores the points does not answer.
        """
        ...


class History:
    """Reads the points in a stream with the schema ``POINTS``: this site's ``raw``, or a replica.

    ``remote_points``: the points that were offloaded to other sites. ``replaces``: whether a point
    replaces earlier points with equal series, attributes and time. ``unstored``: returns why
    acknowledged points are missing in all reads of the present points; empty: none is missing.
    """

    def __init__(
        self,
        points: StreamLog,
        remote_points: RemotePoints | None = None,
        *,
        replaces: bool = False,
        unstored: Callable[[], list[str]] = list,
    ) -> None:
        self.unstored = unstored
        self._points = points
        self._remote_points = remote_points
        self._replaces = replaces

    def count_rows(self, start: int, end: int) -> int:
        """Return about how many points of all series this site has from ``start`` to ``end`` (ms).

        All rows of segments and runs that overlap with these times are counted.
        """
        return sum(entry.rows for entry in self._entries(start, end))

    async def read(
        self,
        series: Collection[Series],
        start: int,
        end: int,
        *,
        columns: Sequence[str] = COLUMNS,
        max_points: int = MAX_POINTS,
        missing: list[str] | None = None,
    ) -> pa.Table:
        """Return the points of series with ``start <= ts <= end`` (ms) as a table.

        Points of a series with equal times are sorted by position. Raises ``TooLargeError`` for
        more than ``max_points`` points. ``missing``: see ``batches``.
        """
        found = self.batches(
            series, start, end, columns=columns, max_points=max_points, missing=missing
        )
        batches = [batch async for batch in found]
        schema = pa.schema([POINTS.field(name) for name in columns])
        return pa.Table.from_batches(batches, schema)

    async def read_grouped(
        self,
        series: Mapping[Series, Metadata],
        start: int,
        end: int,
        missing: list[str] | None = None,
    ) -> GroupedPoints:
        """Return the points of series with ``start <= ts <= end`` (ms), grouped by series.

        Raises ``TooLargeError`` for more than ``MAX_POINTS`` points. ``missing``: see ``batches``.
        """
        points = await in_thread_if_many(len(series), lambda: GroupedPoints(series))
        found = self.batches(series, start, end, max_points=MAX_POINTS, missing=missing)
        slices = Slices()
        async for batch in found:
            if batch.num_rows > MAX_LOOP_ITEMS:
                await asyncio.to_thread(points.add, batch)
            else:
                points.add(batch)
                await slices.pause()
        return points

    async def batches(
        self,
        series: Collection[Series],
        start: int,
        end: int,
        *,
        columns: Sequence[str] = COLUMNS,
        max_points: int | None = None,
        missing: list[str] | None = None,
        with_replaced: bool = False,
    ) -> AsyncIterator[pa.RecordBatch]:
        """Yield the points of series with ``start <= ts <= end`` (ms), in batches of bounded size.

        ``missing``: a list to which messages about unreadable offloaded points are appended; None:
        unreadable points raise ``UnavailableError``. ``with_replaced``: True to include points that
        later points replaced. Raises ``TooLargeError`` for more than ``max_points`` points.
        """

        def read(first: int, last: int, names: Sequence[str]) -> AsyncIterator[pa.RecordBatch]:
            return self._read_all(series, first, last, names, missing)

        rows = 0
        is_whole = with_replaced or not self._replaces
        found = read(start, end, columns) if is_whole else read_distinct(read, start, end, columns)
        async for batch in found:
            rows += batch.num_rows
            if max_points is not None and rows > max_points:
                raise TooLargeError(
                    f"the request selects more than {max_points} points",
                    hint="Select a shorter time, or fewer metrics and entities.",
                )
            yield batch

    async def _read_all(
        self,
        series: Collection[Series],
        start: int,
        end: int,
        columns: Sequence[str],
        missing: list[str] | None,
    ) -> AsyncIterator[pa.RecordBatch]:
        if self._remote_points is None:
            async for batch in self._read_local(series, start, end, columns):
                yield batch
            return
        with self._remote_points.reading():
            found = self._read_both(self._remote_points, series, start, end, columns, missing)
            async for batch in found:
                yield batch

    async def _read_both(
        self,
        remote_points: RemotePoints,
        series: Collection[Series],
        start: int,
        end: int,
        columns: Sequence[str],
        missing: list[str] | None,
    ) -> AsyncIterator[pa.RecordBatch]:
        """Yield the points at other sites and at this site; no point is read from two sites."""
        remotes = await in_thread_if_many(len(series), lambda: list(remote_points.among(series)))
        left = set(series) if remotes else series
        for remote in remotes:
            left = set(left) - set(remote.series)
            last = min(end, remote.to)
            if start <= last:
                late = await self._has_late(remote, start, last)
                try:
                    reached = self._points.head if late else 0
                    async for batch in remote.read(start, last, columns, reached):
                        yield batch
                except MistbowError as error:
                    reason = remote.reason(start, last, error.message)
                    if missing is None:
                        raise UnavailableError(reason) from error
                    missing.append(reason)
            async for batch in self._read_local(
                remote.series, max(start, remote.to + 1), end, columns
            ):
                yield batch
        async for batch in self._read_local(left, start, end, columns):
            yield batch

    async def _has_late(self, remote: RemoteSeries, start: int, end: int) -> bool:
        """Return whether points from ``start`` to ``end`` (ms) arrived here after the offload."""
        found = self._read_local(remote.series, start, end, ("ts",), remote.before)
        async for batch in found:
            if batch.num_rows:
                return True
        return False

    async def _read_local(
        self,
        series: Collection[Series],
        start: int,
        end: int,
        columns: Sequence[str],
        since: int = 0,
    ) -> AsyncIterator[pa.RecordBatch]:
        """Yield the local points in segments and runs that end after the position ``since``."""
        if not series or start > end:
            return
        matcher, hashes = await in_thread_if_many(len(series), lambda: _prepare(series))
        point_filter = _PointFilter(matcher, start, end, list(columns))
        slices = Slices()
        async for batches in self._scan(start, end, hashes, since):
            if sum(batch.num_rows for batch in batches) > _MAX_LOOP_ROWS:
                selected = await asyncio.to_thread(point_filter.apply, batches)
            else:
                selected = point_filter.apply(batches)
            for batch in selected:
                yield batch
            # Without data from Ignite, nothing here waits.
            await slices.pause()

    async def _scan(
        self, start: int, end: int, hashes: Collection[int], since: int
    ) -> AsyncIterator[list[pa.RecordBatch]]:
        """Yield lists of record batches that contain the points with the given hashes and times.

        A list has the points of a few blocks or segments, and can also contain other points.
        """
        log = self._points
        # Future points that are released during this read become rows beyond the present head.
        released = log.future_points.released
        entries = [each for each in self._entries(start, end) if each.next > since]
        blocks = [
            ((entry, block), entry.rows // entry.blocks)
            for entry in entries
            if entry.blocks
            for block in sorted({value % entry.blocks for value in hashes})
        ]
        for some in _group(blocks):
            yield [batch for table in await log.blocks(some) for batch in table.to_batches()]
        for segments in _group([(entry, entry.rows) for entry in entries if not entry.blocks]):
            extents = await log.extents(segments)
            may_delete = log.tombstones.may_delete_from(segments[0].first)
            rows = sum(entry.rows for entry in segments) if may_delete else 0
            select = partial(_select, extents, segments[0].first, segments[-1].next)
            yield await in_thread_if_many(rows, select)
        if pending := await log.pending_points(entries, released):
            yield pending

    def _entries(self, start: int, end: int) -> list[IndexEntry]:
        """Return the index entries that may have points from ``start`` to ``end`` (ms, inclusive).

        The entries are sorted by position.
        """
        index = self._points.index
        pending = [
            index[index.find(first)] for first in self._points.future_points.due_segments(end)
        ]
        found = {entry.first: entry for entry in (*index.overlapping(start, end), *pending)}
        return [found[first] for first in sorted(found)]


def _select(extents: Sequence[Extent], start: int, end: int) -> list[pa.RecordBatch]:
    return [each.select(start, end).batch for each in extents]


def _prepare(series: Collection[Series]) -> tuple[KeyMatcher, Collection[int]]:
    """Return a matcher of the rows of series, and hashes that determine which blocks have rows."""
    # So many series are in all blocks.
    many = len(series) > MAX_LOOP_ITEMS
    hashes = range(MAX_BLOCKS) if many else {hash_series(*each) for each in series}
    return KeyMatcher(series), hashes


async def latest_points(
    read: ReadPoints, series: Collection[Series], expected: int, end: int
) -> dict[Series, tuple[int, float]]:
    """Return series -> (time in ms, value) of the latest point; omit series without points.

    The points are read backwards in time, in growing ranges. Staleness markers are skipped.
    ``expected``: the time (ms) at or shortly before which most series have their latest points.
    ``end``: the last time (ms) to read.
    """
    found: dict[Series, tuple[int, float]] = {}
    for back in _LOOK_BACK_MS:
        begin = max(0, expected - back)
        left = [each for each in series if each not in found]
        async for rows in read(left, begin, end):
            await in_thread_if_many(rows.num_rows, partial(_add_latest, found, rows))
        end = begin - 1
        if len(found) == len(series) or begin == 0:
            break
    return found


def _add_latest(found: dict[Series, tuple[int, float]], rows: pa.RecordBatch) -> None:
    """Add each point in ``rows`` to ``found``, unless ``found`` has a later one."""
    columns = (as_list(rows[name]) for name in COLUMNS)
    for metric, entity, ts, value in zip(*columns, strict=True):
        before = found.get((metric, entity))
        if (before is None or before[0] <= ts) and not is_stale(value):
            found[metric, entity] = (ts, value)


def _group(parts: Iterable[tuple[T, int]]) -> Iterator[list[T]]:
    """Divide parts into groups with bounded numbers of parts and rows; yield each group.

    ``parts``: pairs of a part and the number of rows in the part.
    """
    some: list[T] = []
    rows = 0
    for part, count in parts:
        if some and (len(some) >= _MAX_BATCH_PARTS or rows + count > _MAX_BATCH_ROWS):
            yield some
            some, rows = [], 0
        some.append(part)
        rows += count
    if some:
        yield some
