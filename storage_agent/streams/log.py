"""The log of a stream: an agent's view of the segments and runs that Ignite stores."""

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import replace
from enum import Enum
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mistbow.errors import ConflictError, UnavailableError
from storage_agent import metrics
from storage_agent.streams.activity import Activity
from storage_agent.streams.consumer import SegmentConsumer
from storage_agent.streams.extents import Extent, Visibility, without_deleted
from storage_agent.streams.future_points import FuturePoints
from storage_agent.streams.idempotency_keys import MAX_AGE_S, IdempotencyKeys
from storage_agent.streams.index import Index, IndexEntry, split_by_size
from storage_agent.streams.manifest import Fence, ManifestCell, Tombstone
from storage_agent.streams.policy import Permanent, StreamPolicy
from storage_agent.streams.runs import (
    POSITION,
    Run,
    SegmentTable,
    is_sorted,
    merge_blocks,
    split_position_deltas,
)
from storage_agent.streams.segment_store import FUTURE_POINTS, SegmentStore
from storage_agent.streams.segments import Segment, empty_batch
from storage_agent.streams.shared_reads import SharedReads
from storage_agent.streams.state import RetentionLeases, StateCell
from storage_agent.streams.tombstones import Tombstones, TombstoneTracker
from storage_agent.work_threads import in_thread_if_many

_MAX_READ_BYTES = 4 * 2**20
"""The size of segments (bytes) that one read from Ignite exceeds only by its last segment.

Ignite builds each answer in its heap several times, and by default the heap has 128 MiB.
"""


class LogPhase(Enum):
    """The phases of a stream's log in this agent."""

    NEW = "new"
    """The log has read nothing yet."""
    RECOVERING = "recovering"
    """The manifest, the state and the segments are being read."""
    OPEN = "open"
    """Rows can be read and appended; this agent compacts and evicts; a consumer can be attached."""
    FENCED = "fenced"
    """Another agent compacts and evicts the stream; this agent can still read rows."""
    REMOVED = "removed"
    """The stream is deleted; its readers stop."""


class StreamLog:
    """Reads the rows of a stream, and has the stream's index, epoch and frontier in memory.

    Only the stream's ``Writer`` and ``Maintenance`` change the log. ``fence``: returns the epoch
    with which this agent changes the manifest; the manifest refuses an agent with an older epoch.
    ``key``: the prefix of the stream's keys in Ignite, if it is not ``name`` because an earlier
    stream had this name; None: ``name``. ``policy``: the rules for retention, compaction by key and
    appends; None: rows never expire (``Permanent``).
    """

    def __init__(
        self,
        name: str,
        schema: pa.Schema,
        store: SegmentStore,
        fence: Fence = lambda: 0,
        key: str | None = None,
        policy: StreamPolicy | None = None,
    ) -> None:
        self.name = name
        self.key = key or name
        self.schema = schema
        self.store = store
        self.policy = policy or Permanent()
        self.state = StateCell(store.ignite, self.key)
        self.manifest = ManifestCell(store.ignite, self.key, fence)
        self.activity = Activity()
        self.index = Index()
        self.keys = IdempotencyKeys()
        self.future_points = FuturePoints()
        self.runs: dict[tuple[int, int], Run] = {}
        # The ids of the backups that read the stream: meanwhile it is not compacted.
        self.backups: set[str] = set()
        self.phase = LogPhase.NEW
        # Held while a stored segment is applied to the consumer, until the log contains it.
        self.applying = asyncio.Lock()
        self.epoch = 0
        self.frontier = 0
        self.bytes = 0
        self._tombstones = TombstoneTracker(self.manifest)
        self._consumer: SegmentConsumer | None = None
        self._run_reads = SharedReads[Extent]()

    # The life of the log.

    async def recover(self) -> None:
        """Read the manifest, the state and the segments from Ignite.

        The other methods may be called only after ``recover`` has returned.
        """
        self.phase = LogPhase.RECOVERING
        await self.manifest.load()
        await self.state.load()
        manifest = self.manifest.current
        self.keys.forget_bodies(manifest.deleted_before)
        self.index = Index(manifest.next)
        for run in manifest.runs:
            self.index.append(IndexEntry.of_run(run))
            self.runs[run.first, run.next] = run
        if manifest.runs:
            last = manifest.runs[-1]
            self.epoch, self.frontier = last.epoch, last.frontier
            self.future_points = FuturePoints(last.released)
            self.future_points.recover(self.index)
            await self._recover_keys(manifest.runs)
        await self.catch_up()
        self.move_frontier(self.state.current.frontier)
        self.phase = LogPhase.OPEN

    def attach(self, consumer: SegmentConsumer) -> None:
        """Pass each later segment to ``consumer``, before the segment is added to the log.

        Call ``attach`` at most once, and only after ``recover``. The log does not pass the segments
        before the head: the consumer must have read them already.
        """
        if self.phase in (LogPhase.NEW, LogPhase.RECOVERING) or self._consumer is not None:
            raise RuntimeError(
                f"{self.name}: attach may be called only once, and only after recover"
            )
        self._consumer = consumer

    def fence(self) -> None:
        """Stop the compaction and eviction, because another agent now maintains the stream."""
        if self.phase is not LogPhase.REMOVED:
            self.phase = LogPhase.FENCED

    @property
    def is_removed(self) -> bool:
        """Whether the stream was deleted."""
        return self.phase is LogPhase.REMOVED

    def mark_removed(self) -> None:
        """Mark the log of a deleted stream as removed, and wake its readers."""
        self.phase = LogPhase.REMOVED
        self.activity.announce()

    # What the log is now.

    @property
    def head(self) -> int:
        """The position after the last segment."""
        return self.index.head

    @property
    def first(self) -> int:
        """The first position that is not evicted."""
        return self.index.first

    @property
    def attributes(self) -> dict[str, Any]:
        """The attributes that writers have stored in the stream's state."""
        return self.state.current.attributes

    def retention_leases(self, now: int) -> RetentionLeases:
        """Return the retention leases that have not expired at ``now`` (ms)."""
        return self.state.current.retention_leases(now)

    def expired_before(self) -> int:
        """Return the expiry threshold (ms): segments that were created earlier have expired."""
        return self.policy.expired_before(self.state.current)

    def compaction_limit(self) -> int:
        """Return the position up to which segments may be compacted or evicted."""
        if self._consumer is None or self._consumer.needs_from is None:
            return self.head
        return self._consumer.needs_from()

    def visibility(self, run: Run | None) -> Visibility:
        """Return the visibility of the rows in a run.

        ``run`` None: return the visibility of the rows in segments outside runs.
        """
        applied = 0 if run is None else run.last_tombstone
        return Visibility(self.expired_before(), self.tombstones, applied)

    @property
    def tombstones(self) -> Tombstones:
        """The tombstones that readers have to apply."""
        return self._tombstones.current

    def retain_tombstones(self, dropped: Iterable[Tombstone] = ()) -> None:
        """Retain the tombstones ``dropped``, which the manifest drops, while readers may need them.

        A reader that began before a compaction may still read the rows that the compaction
        replaced.
        """
        self._tombstones.retain(dropped)

    def watch(self) -> asyncio.Event:
        """Mark the stream as watched; return the event that is set when the stream next changes."""
        return self.activity.watch()

    # Reading.

    async def frontier_at(self, position: int) -> int:
        """Return the frontier that a reader reaches by reading all rows before ``position``."""
        if position >= self.head:
            return self.frontier
        at = self.index.find(position)
        entry = self.index[at]
        before = self.index[at - 1].frontier if at else 0
        if entry.blocks and position > entry.first:
            table = await self.segment_table(entry)
            if segment := table.find(position):
                return int(table.frontier[segment - 1])
        return before

    async def seek(self, time: int) -> int:
        """Return the start of the first segment that may have rows with ``ts > time``.

        If no segment has such rows, return the head.
        """
        position = self.index.seek(time)
        entry = self.index[self.index.find(position)] if position < self.head else None
        if entry is None or not entry.blocks:
            return position
        table = await self.segment_table(entry)
        later = np.flatnonzero(table.top > time)
        return int(table.first[later[0]]) if len(later) else entry.next

    def run_of(self, entry: IndexEntry) -> Run:
        """Return the run of an index entry; raises ``UnavailableError`` if the run was replaced."""
        run = self.runs.get((entry.first, entry.next))
        if run is None:
            raise self._changed()
        return run

    async def segments(self, entries: Sequence[IndexEntry]) -> list[Segment]:
        """Return the segments of index entries, as stored in Ignite; no entry may be a run.

        Raises ``UnavailableError`` if a segment was merged or evicted.
        """
        found: list[Segment] = []
        for part in split_by_size(entries, _MAX_READ_BYTES):
            found += await self.store.get_all(self.key, [entry.first for entry in part])
        if len(found) != len(entries):
            raise self._changed()
        return found

    async def segment_table(self, entry: IndexEntry) -> SegmentTable:
        """Return the table of the segments that were merged into the run of an index entry."""
        return (await self.store.segment_table(self.key, self.run_of(entry).id))[0]

    async def extents(self, entries: Sequence[IndexEntry]) -> list[Extent]:
        """Return the extents of index entries, one extent for each entry."""
        segments = iter(await self.segments([entry for entry in entries if not entry.blocks]))
        return [
            await self._read_run(self.run_of(entry))
            if entry.blocks
            else Extent.of([next(segments)], self.visibility(None))
            for entry in entries
        ]

    async def block(self, entry: IndexEntry, block: int) -> pa.Table:
        """Return the visible rows in one block of a run of points, with the positions of the rows.

        ``block``: the number of the block.
        """
        return (await self.blocks([(entry, block)]))[0]

    async def blocks(self, blocks: Sequence[tuple[IndexEntry, int]]) -> list[pa.Table]:
        """Return the visible rows in several blocks of runs of points, one table for each block.

        ``blocks``: for each block, the index entry of its run, and the block's number. Each table
        has a column with the positions of the rows.
        """
        runs = [self.run_of(entry) for entry, _ in blocks]
        requested = [(run.id, block) for run, (_, block) in zip(runs, blocks, strict=True)]
        found = zip(await self.store.blocks(self.key, requested), runs, strict=True)
        tables = [await self._without_expired(*each) for each in found]
        if not self.tombstones:
            return tables
        visible = [(self.visibility(run), run.first) for run in runs]
        rows = sum(map(len, tables))
        return await in_thread_if_many(rows, lambda: without_deleted(tables, visible))

    async def pending_points(
        self, entries: Sequence[IndexEntry], released: int
    ) -> list[pa.RecordBatch]:
        """Return the visible future points of segments and runs that are not rows yet.

        ``entries``: the index entries of the segments and runs. ``released``: points up to this
        time (ms) are rows already. Returns one batch for each entry that may have such points.
        """
        found = []
        for entry in entries:
            if entry.future_max_ts <= released:
                continue
            if entry.blocks:
                run = self.run_of(entry)
                points = await self._future_points_of(run)
                visibility = self.visibility(run)
                found.append(visibility.pending_points(points, run.first, run.created, released))
            else:
                [extent] = await self.extents([entry])
                found.append(extent.pending_points(released))
        return found

    async def _without_expired(self, table: pa.Table, run: Run) -> pa.Table:
        before = self.expired_before()
        if run.oldest >= before:
            return table
        segments, _ = await self.store.segment_table(self.key, run.id)
        living = int(np.searchsorted(segments.created, before))
        begin = int(segments.first[living]) if living < len(segments) else run.next
        return table.filter(pc.field(POSITION) >= begin)

    async def _read_run(self, run: Run) -> Extent:
        visibility = self.visibility(run)
        cached: Extent | None = self.store.cached(f"{self.key}/extent/{run.id}")
        if cached is None:
            cached = await self._run_reads.read(run.id, lambda: self._decode_run(run))
        return replace(cached, visibility=visibility)

    async def _decode_run(self, run: Run) -> Extent:
        segments, _ = await self.store.segment_table(self.key, run.id)
        if is_sorted(self.schema):
            requested = [(run.id, block) for block in range(run.blocks)]
            blocks = await self.store.blocks(self.key, requested)
            rows, positions = await asyncio.to_thread(merge_blocks, blocks)
        else:
            rows, positions = split_position_deltas(await self.store.rows(self.key, run.id))
        future_points = await self._future_points_of(run)
        extent = Extent(rows, positions, segments, future_points, self.visibility(run))
        self.store.cache(f"{self.key}/extent/{run.id}", extent, extent.size)
        return extent

    async def _future_points_of(self, run: Run) -> pa.RecordBatch:
        if run.future_max_ts < run.future_min_ts:
            return empty_batch(self.schema)
        return await self.store.rows(self.key, run.id, FUTURE_POINTS)

    def _changed(self) -> UnavailableError:
        return UnavailableError(
            f"the stream {self.name} was compacted or evicted during the read", hint="Try again."
        )

    # Changes by the stream's writer.

    async def append(self, segment: Segment, data: bytes) -> bool:
        """Store a segment at the head, and return True.

        If another writer has already stored a segment at the head, adds that segment to the log,
        and returns False. After an error, the method may be called again with the same segment.
        """
        winner = await self.store.put(segment, data)
        won = winner.header.nonce == segment.header.nonce
        if won and segment.next > self.head:
            self.bytes += len(data)
        await self._follow(winner)
        return won

    @property
    def is_head_uncertain(self) -> bool:
        """Whether an unanswered append at the head may be stored, or may be stored later.

        The next segment at this position, with or without rows, ends this.
        """
        return self.store.is_unanswered(self.key, self.head)

    @property
    def is_uncertain(self) -> bool:
        """Whether an unanswered change of the stream may be stored, or may be stored later."""
        return self.is_head_uncertain or self.state.is_uncertain or self.manifest.is_uncertain

    async def settle(self) -> None:
        """Adopt the stored state and tombstones; no unanswered change of these happens any more."""
        self.move_frontier((await self.state.settle()).frontier)
        self.keys.forget_bodies((await self.manifest.settle()).deleted_before)

    async def catch_up(self) -> None:
        """Add to the log the segments that Ignite stores from the head on."""
        while (segment := await self.store.get(self.key, self.head)) is not None:
            await self._follow(segment)

    async def wait_applied(self) -> None:
        """Wait until the log contains the segment that is being applied to the consumer, if any.

        Then the log contains all rows that the consumer has applied before this call.
        """
        async with self.applying:
            pass

    def move_frontier(self, frontier: int) -> None:
        """Set the log's frontier to ``frontier`` if ``frontier`` is greater, and wake the readers.

        ``frontier`` must already be stored in Ignite.
        """
        self.frontier = max(self.frontier, frontier)
        self.activity.announce()

    async def _follow(self, segment: Segment) -> None:
        """Apply a stored segment to the consumer, and then add it to the log.

        So no reader finds a row of a series that the catalogue does not contain yet. If this task
        is cancelled meanwhile, the log lacks the segment, and the next start recovers the segment.
        A segment that the log contains already is ignored: an append may be repeated, and another
        task may have added the segment.
        """
        entry = IndexEntry.of_segment(segment, segment.stored)
        async with self.applying:
            if segment.next <= self.head:
                return
            try:
                if self._consumer is not None:
                    await self._consumer.apply(segment, entry)
            except Exception:
                self._add(segment, entry)
                raise
            self._add(segment, entry)

    def _add(self, segment: Segment, entry: IndexEntry) -> None:
        header = segment.header
        self.index.append(entry)
        self.keys.record(header.keys)
        self.future_points.apply(segment, entry)
        self.epoch = max(self.epoch, header.epoch)
        metrics.HEAD.labels(self.name).set(self.head)
        self.move_frontier(header.frontier)

    # Changes by compaction and eviction.

    def install_run(self, span: range, entries: Sequence[IndexEntry], run: Run) -> None:
        """Replace the index entries ``span`` with the stored run into which they were merged.

        ``entries``: the entries of ``span``.
        """
        self.runs[run.first, run.next] = run
        entry = IndexEntry.of_run(run)
        self.index.replace(span, entry)
        self.future_points.replace([each.first for each in entries], entry)

    def forget_run(self, name: str) -> None:
        """Forget a run whose data was removed; reads of the run then raise ``UnavailableError``."""
        for span, run in list(self.runs.items()):
            if run.id == name:
                del self.runs[span]

    def drop_entries(self, count: int) -> None:
        """Remove the first ``count`` entries from the index, after the entries were evicted."""
        firsts = [self.index[number].first for number in range(count)]
        self.index.drop(count)
        self.future_points.forget(firsts)

    async def reconcile(self) -> None:
        """Settle the manifest after a change with an unknown outcome, and update the index."""
        await self.manifest.settle()
        self.follow_manifest()

    def follow_manifest(self) -> None:
        """Apply the runs and evictions of the manifest to the index.

        Raises ``ConflictError`` if a run does not begin and end where index entries begin and end.
        """
        manifest = self.manifest.current
        evicted = 0
        while evicted < len(self.index) - 1 and self.index[evicted].next <= manifest.first:
            evicted += 1
        if evicted:
            self.drop_entries(evicted)
        for run in manifest.runs:
            known = self.runs.get((run.first, run.next))
            if known is not None and known.id == run.id:
                continue
            begin, end = self.index.find(run.first), self.index.find(run.next)
            entries = [self.index[number] for number in range(begin, end)]
            if not entries or (entries[0].first, entries[-1].next) != (run.first, run.next):
                raise ConflictError(f"another agent has compacted the stream {self.name}")
            self.install_run(range(begin, end), entries, run)

    async def _recover_keys(self, runs: Sequence[Run]) -> None:
        oldest = runs[-1].created - int(MAX_AGE_S * 1000)
        for run in runs:
            if run.created >= oldest:
                _, keys = await self.store.segment_table(self.key, run.id)
                self.keys.record(keys)
