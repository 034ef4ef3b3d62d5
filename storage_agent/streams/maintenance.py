"""Maintains streams: compacts them, evicts expired rows, and removes garbage.

A single task maintains the streams one after the other, concurrently with reads and writes.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass

import msgspec

from mistbow.clock import Clock
from mistbow.errors import ConflictError, FencedError, UnavailableError
from mistbow.telemetry import get_logger
from storage_agent import metrics
from storage_agent.streams.compaction import (
    MAX_BYTES,
    Compaction,
    compact,
    is_claim,
    next_compaction,
)
from storage_agent.streams.log import LogPhase, StreamLog
from storage_agent.streams.manifest import Garbage, Manifest, Tombstone
from storage_agent.streams.policy import StorageUsage
from storage_agent.streams.runs import Run
from storage_agent.streams.tombstones import Bools, Tombstones

log = get_logger(__name__)

GRACE_MS = 60_000
"""The age (ms) at which garbage is removed.

All readers that may still need the keys have ended by then.
"""

MAX_UNREPLICATED = 10_000
"""The limit for tombstones that are retained because a replica may not have received them.

The limit applies to the number of these tombstones plus the number of their keys.
"""

_MAX_TOMBSTONES = 256
"""The number of tombstones above which the segments of a stream are merged early.

The merge applies the tombstones to the rows, so that readers need not apply them.
"""

_MAX_SCANNED_SEGMENTS = 4
"""The maximum number of segments that are read to find the tombstones that still delete rows."""

_EVICTION_BATCH = 5000
"""The maximum number of index entries to evict at once.

The manifest lists each evicted entry as garbage.
"""

_COMPACTIONS_PER_TURN = 4
"""The maximum number of compactions of a stream before the next stream is maintained."""


TombstoneFilter = Callable[[str], Callable[[Tombstone], bool]]
"""A function that returns a filter for the tombstones of a stream, given the stream's name.

The filter returns whether a tombstone is selected.
"""


@dataclass(frozen=True, slots=True)
class StorageLimit:
    """The limit for the total size of all streams.

    ``max_bytes``: the limit (bytes); None: there is no limit. ``evict``: at the limit, evict the
    oldest rows (True) or reject writes (False).
    """

    max_bytes: int | None = None
    evict: bool = True


class Maintenance:
    """Compacts the streams of an agent, evicts rows, and removes garbage.

    ``logs``: returns the logs of all streams. ``limit``: returns the storage limit. ``evictable``:
    given the name of a stream, returns whether the stream's rows may be evicted at the storage
    limit. ``unreplicated``: selects tombstones that a replica may not have received yet; only the
    newest of these tombstones are retained. ``owed``: selects tombstones that must all be retained
    for replicas. ``usage``: receives the result of each check of the storage limit.
    """

    def __init__(
        self,
        logs: Callable[[], Sequence[StreamLog]],
        clock: Clock,
        limit: Callable[[], StorageLimit],
        evictable: Callable[[str], bool],
        unreplicated: TombstoneFilter = lambda _: lambda _: False,
        owed: TombstoneFilter = lambda _: lambda _: False,
        usage: StorageUsage | None = None,
    ) -> None:
        self.usage = usage or StorageUsage()
        self._logs = logs
        self._clock = clock
        self._limit = limit
        self._evictable = evictable
        self._unreplicated = unreplicated
        self._owed = owed
        # One maintenance at a time: nothing else may change the runs meanwhile.
        self._turn = asyncio.Lock()
        self._doubtful: set[str] = set()

    @contextlib.asynccontextmanager
    async def suspended(self) -> AsyncIterator[None]:
        """Wait until no stream is being maintained; none is inside the ``async with`` block."""
        async with self._turn:
            yield

    async def run(self) -> None:
        """Maintain every stream once.

        Raises ``UnavailableError`` if the connection to Ignite is lost.
        """
        async with self._turn:
            await self._maintain_all()

    async def _maintain_all(self) -> None:
        for each in self._logs():
            if each.phase is LogPhase.OPEN:
                await self._try(each, self._maintain(each))
        await self._enforce_limit()

    async def _try(self, each: StreamLog, work: Awaitable[None]) -> None:
        """Await ``work``, which maintains one stream, and handle its errors.

        If another agent has changed the stream, the stream's log is fenced. After other errors, the
        outcome is unknown, and the log reads the manifest again before the next maintenance. Raises
        ``UnavailableError`` if the connection to Ignite is lost.
        """
        try:
            await work
        except (FencedError, ConflictError) as error:
            log.error("stream_fenced", stream=each.name, error=error.message)
            each.fence()
        except UnavailableError as error:
            # The change of the manifest may have succeeded.
            self._doubtful.add(each.key)
            if not each.store.ignite.connected:
                raise
            log.info("stream_maintenance_delayed", stream=each.name, error=error.message)
        except Exception as error:
            self._doubtful.add(each.key)
            log.error("stream_maintenance_failed", stream=each.name, exc_info=error)

    async def _maintain(self, each: StreamLog) -> None:
        if each.key in self._doubtful:
            await each.reconcile()
            self._doubtful.discard(each.key)
        await self._remove_garbage(each)
        await self._evict(each, min(_count_expired(each), _EVICTION_BATCH))
        for _ in range(_COMPACTIONS_PER_TURN):
            compaction = None if each.backups else self._next_compaction(each)
            if compaction is None:
                break
            await compact(each, compaction, self._clock)
            metrics.COMPACTIONS.labels(each.name).inc()
        await self._drop_tombstones(each)

    def _next_compaction(self, each: StreamLog) -> Compaction | None:
        runs = each.manifest.current.runs
        levels = [run.level for run in runs]
        found = next_compaction(each.index, levels, each.compaction_limit())
        if found is not None:
            return found
        if not each.manifest.current.tombstones:
            return None
        if len(_of_segments(each)) > _MAX_TOMBSTONES and (tail := _tail(each)):
            return Compaction(tail, 1)
        for number, run in enumerate(runs):
            if _overlapping(each.tombstones, run) is not None:
                return Compaction(range(number, number + 1), run.level)
        return None

    async def _drop_tombstones(self, each: StreamLog) -> None:
        """Drop the tombstones that no segment, run or replica needs any more."""
        each.retain_tombstones(())
        manifest = each.manifest.current
        if not manifest.tombstones:
            return
        needed = await _needed_by_segments(each)
        needed |= _newest(filter(self._unreplicated(each.name), manifest.tombstones))
        needed |= {d.id for d in filter(self._owed(each.name), manifest.tombstones)}
        for run in manifest.runs:
            needed |= each.tombstones.ids(_overlapping(each.tombstones, run))
        dropped = {d.id for d in manifest.tombstones} - needed

        def without(now: Manifest) -> Manifest:
            # There may be new tombstones meanwhile.
            left = tuple(d for d in now.tombstones if d.id not in dropped)
            return msgspec.structs.replace(now, tombstones=left)

        if dropped:
            each.retain_tombstones(d for d in manifest.tombstones if d.id in dropped)
            await each.manifest.update(without)

    async def _evict(self, each: StreamLog, entries: int, *, at_limit: bool = False) -> None:
        """Evict entries at the start of the index; ``at_limit``: they have not expired."""
        if not entries:
            return
        evicted = [each.index[number] for number in range(entries)]
        garbage = Garbage(
            since=self._clock(),
            segments=tuple(e.first for e in evicted if not e.blocks and not is_claim(e)),
            runs=tuple(
                (run.id, run.blocks) for run in map(each.run_of, (e for e in evicted if e.blocks))
            ),
        )
        begin = evicted[-1].next

        def without(manifest: Manifest) -> Manifest:
            if manifest.first >= begin:
                return manifest  # an earlier attempt with an unknown outcome had succeeded
            return msgspec.structs.replace(
                manifest,
                first=begin,
                runs=tuple(run for run in manifest.runs if run.first >= begin),
                garbage=(*manifest.garbage, garbage),
            )

        await each.manifest.update(without)
        each.drop_entries(entries)
        rows = sum(entry.rows for entry in evicted)
        metrics.EVICTED_ROWS.labels(each.name).inc(rows)
        if at_limit:
            metrics.LIMIT_EVICTED_ROWS.inc(rows)

    async def _remove_garbage(self, each: StreamLog) -> None:
        """Remove the garbage whose grace period is over."""
        if each.manifest.current.building is not None:
            # A restart or an error interrupted the building of a run.
            await each.manifest.update(lambda m: _abandon(m, self._clock()))
        for garbage in each.manifest.current.garbage:
            if 0 <= self._clock() - garbage.since < GRACE_MS:
                return
            await self._remove(each, garbage)
            await each.manifest.update(lambda m: msgspec.structs.replace(m, garbage=m.garbage[1:]))

    async def _remove(self, each: StreamLog, garbage: Garbage) -> None:
        for run in garbage.merged:
            table, _ = await each.store.segment_table(each.key, run)
            firsts = table.first.tolist()
            await each.store.remove_segments(
                each.key, [n for n in firsts if n not in garbage.claims]
            )
        await each.store.remove_segments(each.key, garbage.segments)
        for run, blocks in garbage.runs:
            await each.store.remove_run(each.key, run, blocks)
            each.forget_run(run)

    async def _enforce_limit(self) -> None:
        """Evict the oldest entries while the streams exceed the storage limit.

        If nothing may be evicted, sets ``usage.is_full``, so that appends are rejected.
        """
        limit = self._limit()
        logs = self._logs()
        taken = sum(each.index.bytes for each in logs)
        metrics.STORED_BYTES.set(taken)
        if limit.max_bytes is None or taken <= limit.max_bytes:
            self.usage.is_full = False
            return
        self.usage.is_full = not limit.evict
        while limit.evict and taken > limit.max_bytes:
            oldest = min(
                (each for each in logs if self._may_evict(each)),
                key=lambda each: each.index[0].created,
                default=None,
            )
            if oldest is None:
                self.usage.is_full = True
                return
            taken -= oldest.index[0].bytes
            await self._try(oldest, self._evict(oldest, 1, at_limit=True))

    def _may_evict(self, each: StreamLog) -> bool:
        if each.phase is not LogPhase.OPEN or each.key in self._doubtful:
            return False
        return self._evictable(each.name) and _can_drop(each)


def _abandon(manifest: Manifest, now: int) -> Manifest:
    """Return the manifest without an unfinished run; the keys of the run become garbage.

    If the run is listed in the manifest, the run is finished, and its keys are needed.
    """
    left = manifest.building
    if left is None or any(run.id == left[0] for run in manifest.runs):
        return msgspec.structs.replace(manifest, building=None)
    garbage = Garbage(since=now, runs=(left,))
    return msgspec.structs.replace(manifest, building=None, garbage=(*manifest.garbage, garbage))


def _newest(tombstones: Iterable[Tombstone]) -> set[int]:
    """Return the ids of the newest tombstones.

    The number of returned tombstones plus the number of their keys is at most ``MAX_UNREPLICATED``,
    unless the newest tombstone alone has more keys.
    """
    left = MAX_UNREPLICATED
    newest: set[int] = set()
    for each in reversed(list(tombstones)):
        left -= 1 + len(each.keys)
        if left < 0 and newest:
            break
        newest.add(each.id)
    return newest


def _of_segments(each: StreamLog) -> list[Tombstone]:
    """Return the tombstones that may apply to segments outside runs."""
    manifest = each.manifest.current
    return [d for d in manifest.tombstones if manifest.next < d.before]


async def _needed_by_segments(each: StreamLog) -> set[int]:
    """Return the ids of the tombstones that may delete rows of segments outside runs.

    If many tombstones apply to few segments, the function reads the segments to find the tombstones
    that really delete rows.
    """
    tombstones = _of_segments(each)
    behind = range(len(each.manifest.current.runs), len(each.index))
    if len(tombstones) <= _MAX_TOMBSTONES or len(behind) > _MAX_SCANNED_SEGMENTS:
        return {d.id for d in tombstones}
    needed: set[int] = set()
    indexed = Tombstones(tombstones)
    for segment in await each.segments([each.index[number] for number in behind]):
        batches = [segment.rows, segment.future_points]
        needed |= await asyncio.to_thread(indexed.needed_by, batches, segment.header.first)
    return needed


def _overlapping(tombstones: Tombstones, run: Run) -> Bools | None:
    times = min(run.min_ts, run.future_min_ts), max(run.max_ts, run.future_max_ts)
    return tombstones.overlapping(run.first, times, run.last_tombstone)


def _tail(each: StreamLog) -> range | None:
    """Return the range of the index entries whose segments may be merged into a run.

    Returns None if no segment may be merged. The last segment is never merged.
    """
    begin = end = len(each.manifest.current.runs)
    size = 0
    while end < len(each.index) - 1 and each.index[end].next <= each.compaction_limit():
        size += each.index[end].bytes
        if size > MAX_BYTES and end > begin:
            break
        end += 1
    return range(begin, end) if end > begin else None


def _count_expired(each: StreamLog) -> int:
    """Return how many entries at the start of the index have expired and may be evicted."""
    before = each.expired_before()
    entries = 0
    while _can_drop(each, entries) and each.index[entries].created < before:
        entries += 1
    return entries


def _can_drop(each: StreamLog, number: int = 0) -> bool:
    """Return whether the index entry with this number may be evicted.

    The last entry may not be evicted, nor may an entry whose segments a consumer still needs.
    """
    if number >= len(each.index) - 1:
        return False
    return each.index[number].next <= each.compaction_limit()
