"""The deletion and expiry of points, and the correction of latest values in the catalogue."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from msgspec.structs import replace

from mistbow.errors import FencedError, MistbowError, TooLargeError
from mistbow.runtime.slices import Slices
from mistbow.streams.json_numbers import is_stale
from mistbow.telemetry import get_logger
from storage_agent.series import Series
from storage_agent.streams.columns import KeyMatcher, as_list
from storage_agent.streams.extents import Extent
from storage_agent.streams.index import EARLIEST, IndexEntry
from storage_agent.streams.log import StreamLog
from storage_agent.streams.manifest import KeySet, Tombstone
from storage_agent.streams.streams import Stream
from storage_agent.timeseries.catalogue import Catalogue
from storage_agent.timeseries.deletion import cover_series
from storage_agent.timeseries.history import RemotePoints
from storage_agent.timeseries.selection import SeriesSelection
from storage_agent.timeseries.series_index import LatestValue
from storage_agent.work_threads import in_own_thread_if_many

log = get_logger(__name__)

_COLUMNS = ("metric", "entity", "ts", "value")

SelectSeries = Callable[[], Awaitable[SeriesSelection]]
"""A function that returns the series that a deletion selects, and waits for no long read."""

ReadLatest = Callable[[Collection[Series]], Awaitable[dict[Series, tuple[int, float]]]]


@dataclass(frozen=True, slots=True)
class _PreparedDeletion:
    """The selected series of a deletion, and the keys that select their rows.

    ``revision``: the revision of the catalogue for which the keys are right.
    """

    revision: int
    series: SeriesSelection
    key_sets: list[KeySet]


class PointRemover:
    """Deletes points, and corrects the catalogue after points were deleted or have expired.

    ``remote_points``: reads the points that were offloaded to other sites.
    """

    def __init__(self, raw: Stream, catalogue: Catalogue, remote_points: RemotePoints) -> None:
        self._raw = raw
        self._catalogue = catalogue
        self._remote_points = remote_points
        self._unresolved: set[Series] = set()
        # The series of deletions that failed, or whose recheck failed; no series is in two sets.
        self._unchecked: list[set[Series]] = []
        # The series without points that no call has returned yet.
        self._removed: list[Series] = []

    async def delete(
        self, select: SelectSeries, start: int | None, end: int | None
    ) -> list[Series]:
        """Delete the points of series from ``start`` to ``end``; return series without points.

        ``start``, ``end``: ms, inclusive; None if unbounded. ``select``: returns the series to
        delete. No series can be added between the last call of ``select`` and the deletion, so a
        new series is deleted only if ``select`` returns it. The result of this method contains the
        series that have no points after the deletion. After an error, ``expire`` rechecks the
        series, because the deletion may have been stored.
        """
        head = self._raw.log.head
        series: Collection[Series] = ()
        prepared = await self._prepare(select)

        async def key_sets() -> list[KeySet]:
            nonlocal series, prepared
            # Appends wait meanwhile, so this must not wait for the threads of long reads.
            if prepared.revision != self._catalogue.revision:
                prepared = await self._prepare(select)
            series = prepared.series
            return prepared.key_sets

        try:
            await self._raw.writer.delete_keys(key_sets, start, end)
            if start is None and end is None:
                await self._recheck(series, head)
            else:
                await self._recheck_local(series)
        except (FencedError, TooLargeError):  # nothing was deleted
            raise
        except BaseException:
            await self._recheck_later(series)
            raise
        if start is not None or end is not None:
            await self._recheck_remote()
        return self._take_removed()

    async def _prepare(self, select: SelectSeries) -> _PreparedDeletion:
        # Read the revision before the selection: if series or their metadata change during this
        # work, the keys are not used.
        revision = self._catalogue.revision
        selected = await select()
        key_sets = await in_own_thread_if_many(
            len(selected), lambda: cover_series(selected, self._catalogue)
        )
        return _PreparedDeletion(revision, selected, key_sets)

    async def expire(self) -> list[Series]:
        """Remove the series whose points have all expired, and return them.

        The series whose latest value has expired are rechecked, and so are those whose latest value
        could not be read yet after a deletion. After an error, the next call returns the series
        that this call has removed.
        """
        removed, left = await self._catalogue.expire()
        self._removed += removed
        if left:
            await self._recheck(left, 0)
        await self._recheck_unchecked()
        await self._recheck_remote()
        return self._take_removed()

    async def finish_deletions(self) -> None:
        """Correct the latest values in the catalogue whose points were deleted before a crash."""
        # Points that were removed only here, after an offload, still count.
        done = (each for each in self._raw.log.manifest.current.tombstones if not each.local)
        tombstones = [(each, frozenset(each.keys)) for each in done]
        deleted = []
        async for series in Slices().over(self._catalogue.select() if tombstones else ()):
            latest = self._catalogue.latest(series)
            if latest is not None and any(
                _deletes(each, keys, series, latest) for each, keys in tombstones
            ):
                deleted.append(series)
        if deleted:
            await self._recheck_local(deleted)

    def _take_removed(self) -> list[Series]:
        removed, self._removed = self._removed, []
        return removed

    async def _recheck_local(self, series: Collection[Series]) -> None:
        """Recheck the series without offloaded points; ``_recheck_remote`` rechecks the others."""
        remotes = await asyncio.to_thread(lambda: list(self._remote_points.among(series)))
        moved = {each for remote in remotes for each in remote.series}
        self._unresolved |= moved
        await self._recheck([each for each in series if each not in moved] if moved else series, 0)

    async def _recheck_later(self, series: Collection[Series]) -> None:
        """Let ``expire`` recheck the series of a deletion; a repeated deletion adds nothing."""
        later = {each async for each in Slices().over(series)}
        others = (each - later for each in self._unchecked)
        self._unchecked = [each for each in (*others, later) if each]

    async def _recheck_unchecked(self) -> None:
        """Recheck the series of deletions that failed; after another error, try the next ones."""
        raw = self._raw.log
        for series in self._unchecked.copy():
            try:
                manifest = await raw.manifest.settle()
                raw.keys.forget_bodies(manifest.deleted_before)
                await self._recheck_local(series)
            except MistbowError as error:
                log.info("deletion_recheck_failed", series=len(series), reason=error.message)
                continue
            self._unchecked = [each for each in self._unchecked if each is not series]

    async def _recheck_remote(self) -> None:
        """Recheck the series that ``_recheck_local`` left out, by local and offloaded points.

        If a site is unreachable, the remaining series are rechecked by the next call.
        """
        for each in list(self._unresolved):
            try:
                await self._recheck([each], 0, self._remote_points.latest)
            except MistbowError as error:
                log.info("latest_value_unavailable", series=each, reason=error.message)
                break
            self._unresolved.discard(each)

    async def _recheck(
        self, series: Collection[Series], since: int, read_remote: ReadLatest | None = None
    ) -> None:
        """Correct the latest values of series in the catalogue; record the series without points.

        ``since``: the position from which local points are read. ``read_remote``: returns the
        latest offloaded points; None: only local points count.
        """
        left = series
        slices = Slices()
        while left:
            # Otherwise, the rest of a segment that is being applied would change the versions.
            await self._raw.log.wait_applied()
            versions = {each: self._catalogue.version(each) async for each in slices.over(left)}
            # These versions may include points of a segment whose application began meanwhile.
            await self._raw.log.wait_applied()
            latest = await _latest(self._raw.log, left, since)
            if read_remote is not None:
                for each, (ts, value) in (await read_remote(left)).items():
                    stored = self._catalogue.stored_latest(each)
                    seen = 0 if stored is None else stored.seen
                    if each not in latest or latest[each].ts < ts:
                        latest[each] = LatestValue(ts, value, seen, seen)
            # Series with points that arrived meanwhile are rechecked.
            changed = []
            async for each, version in slices.over(versions.items()):
                if self._catalogue.version(each) != version:
                    changed.append(each)
                    continue
                self._catalogue.set_latest(each, latest.get(each))
                if each not in latest:
                    self._removed.append(each)
            left = changed


async def _latest(
    log: StreamLog, series: Collection[Series], since: int
) -> dict[Series, LatestValue]:
    """Return series -> latest value among the points at positions from ``since`` on.

    Segments and runs are read from the last to the first. Staleness markers are skipped.
    """
    found: dict[Series, LatestValue] = {}
    if log.head <= since:
        return found
    keys = await asyncio.to_thread(KeyMatcher, series)
    before = log.expired_before()
    released = log.future_points.released
    min_ts = EARLIEST
    for entry, top in log.index.reversed_entries():
        if entry.next <= since or entry.created < before:
            break
        # Future points have times beyond those of the rows before them.
        if max(top, entry.future_max_ts) < min_ts:
            continue
        [extent] = await log.extents([entry])
        await asyncio.to_thread(_add_latest, found, _values(extent, entry, keys, released))
        if len(found) == len(series):
            min_ts = min(latest.ts for latest in found.values())
    return found


def _add_latest(
    found: dict[Series, LatestValue], values: Iterable[tuple[Series, LatestValue]]
) -> None:
    """Add each value to ``found``, unless ``found`` has one of the same or a later time."""
    for each, latest in values:
        if is_stale(latest.value):
            continue
        newer = found.get(each)
        # At equal times the point of the later position counts, which was found first.
        if newer is None or newer.ts < latest.ts:
            found[each] = replace(latest, seen=max(latest.seen, newer.seen if newer else 0))


def _values(
    extent: Extent, entry: IndexEntry, keys: KeyMatcher, released: int
) -> Iterator[tuple[Series, LatestValue]]:
    """Yield the points of series in an extent, as pairs of the series and a ``LatestValue``.

    The rows come first, then the future points; both are in descending order of times.
    """
    rows = extent.select(entry.first, entry.next)
    parts = [
        (rows.batch, extent.segments.created[extent.segments.find_all(rows.positions)]),
        (pending := extent.pending_points(released), np.full(pending.num_rows, entry.created)),
    ]
    for batch, created in parts:
        mask = keys.mask([batch["metric"], batch["entity"]]).to_numpy(zero_copy_only=False)
        selected, arrived = batch.filter(pa.array(mask)), created[mask].tolist()
        metrics, entities, times, values = (as_list(selected[name]) for name in _COLUMNS)
        # Stable and reversed: at equal times the point of the later position is first.
        order = np.argsort(times, kind="stable")[::-1].tolist() if times else []
        for at in order:
            yield (
                (metrics[at], entities[at]),
                LatestValue(times[at], values[at], arrived[at], arrived[at]),
            )


def _deletes(
    tombstone: Tombstone, keys: Collection[Sequence[str]], series: Series, latest: LatestValue
) -> bool:
    return (
        latest.created <= tombstone.created
        and (not keys or _key(tombstone.columns, series) in keys)
        and (tombstone.min_ts is None or latest.ts >= tombstone.min_ts)
        and (tombstone.max_ts is None or latest.ts <= tombstone.max_ts)
    )


def _key(columns: Sequence[str], series: Series) -> tuple[str, ...]:
    """Return the values of a series in ``columns``, which are ``metric``, ``entity``, or both."""
    metric, entity = series
    return tuple(metric if column == "metric" else entity for column in columns)
