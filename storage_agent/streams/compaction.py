"""Compaction: merges small segments into a run, and several runs into a larger run.

The strategy is size-tiered, as in Cassandra and in O'Neil et al., "The log-structured merge-tree"
(1996): ``FAN_IN`` adjacent runs of one level are merged into a run of the next level. A new run is
stored under new keys. Then one compare-and-set operation on the manifest replaces the merged
segments and runs with the new run.
"""

import asyncio
import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import msgspec
import numpy as np
import pyarrow as pa

from mistbow.clock import Clock
from mistbow.errors import ConflictError
from mistbow.streams.events import REMOVED
from storage_agent.series import SERIES_PREFIX
from storage_agent.streams import runs
from storage_agent.streams.extents import Extent, PositionedRows, Visibility, segment_table_of
from storage_agent.streams.idempotency_keys import MAX_AGE_S
from storage_agent.streams.index import EARLIEST, LATEST, Index, IndexEntry, time_range
from storage_agent.streams.log import StreamLog
from storage_agent.streams.manifest import Garbage, Manifest
from storage_agent.streams.runs import Run, SegmentTable
from storage_agent.streams.segment_store import FUTURE_POINTS, SEGMENT_TABLE
from storage_agent.streams.segments import AppendResult, Segment, empty_batch

SEGMENTS_PER_RUN = 256
"""The number of segments that are merged into a run."""

ROWS_PER_RUN = 2**16
"""The number of rows at which even fewer than ``SEGMENTS_PER_RUN`` segments form a run."""

REMOVAL_AGE_MS = 7 * 86_400_000
"""The age (ms) from which on the removal of a series need not reach other sites any more."""

FAN_IN = 8
"""The number of runs of one level that are merged into one run of the next level."""

MAX_ROWS = 600_000
MAX_BYTES = 5 * 2**20
"""The maximum size (bytes) of the segments or runs that are merged into one run.

Ignite never stores a value that is larger than a segment of its write-ahead log.
"""

_MAX_SEGMENTS = 2**16
_SWAP_S = 5.0


@dataclass(frozen=True, slots=True)
class Compaction:
    """A planned compaction, which merges the index entries ``span`` into a run of the level
    ``level``.
    """

    span: range
    level: int


def next_compaction(index: Index, levels: Sequence[int], limit: int) -> Compaction | None:
    """Return the next compaction of a stream; None if no compaction is due.

    ``levels``: the levels of the stream's runs, which are the first entries in the index.
    ``limit``: only segments that end at or before this position are merged. The last segment is
    never merged.
    """
    return _segments_to_merge(index, len(levels), limit) or _runs_to_merge(index, levels)


def _segments_to_merge(index: Index, begin: int, limit: int) -> Compaction | None:
    end = len(index) - 1
    rows, size = index.totals(begin, end)
    if end - begin < SEGMENTS_PER_RUN and rows < ROWS_PER_RUN and size <= MAX_BYTES:
        return None  # the usual case: this runs for each stream each second
    rows = size = 0
    for number in range(begin, end):
        entry = index[number]
        if entry.next > limit:
            return None
        rows += entry.rows
        size += entry.bytes
        full = size > MAX_BYTES and number > begin
        if full or rows >= ROWS_PER_RUN or number - begin + 1 >= SEGMENTS_PER_RUN:
            return Compaction(range(begin, number if full else number + 1), 1)
    return None


def _runs_to_merge(index: Index, levels: Sequence[int]) -> Compaction | None:
    end = len(levels)
    while end:
        level = levels[end - 1]
        begin = end - 1
        while begin and levels[begin - 1] == level:
            begin -= 1
        if end - begin >= FAN_IN and (span := _first_fitting_runs(index, begin, end)) is not None:
            return Compaction(span, level + 1)
        end = begin
    return None


def _first_fitting_runs(index: Index, begin: int, end: int) -> range | None:
    """Return the range of the first two or more adjacent runs that fit into one run.

    Considers only the runs from ``begin`` to ``end`` (exclusive). Returns None if no adjacent runs
    fit into one run, or if fewer than ``FAN_IN`` runs remain from the first fitting run on.
    """
    while end - begin > 1:
        rows = segments = size = 0
        stop = begin
        for number in range(begin, min(end, begin + FAN_IN)):
            entry = index[number]
            rows += entry.rows
            segments += entry.segments
            size += entry.bytes
            if rows > MAX_ROWS or segments > _MAX_SEGMENTS or size > MAX_BYTES:
                break
            stop = number + 1
        if stop - begin > 1:
            return range(begin, stop) if end - begin >= FAN_IN else None
        begin += 1
    return None


async def compact(log: StreamLog, compaction: Compaction, clock: Clock) -> None:
    """Merge the index entries of a planned compaction into one run, which replaces the entries.

    Raises ``UnavailableError`` while Ignite is unavailable, and ``FencedError`` or
    ``ConflictError`` if another agent compacts the stream.
    """
    entries = [log.index[number] for number in compaction.span]
    name = f"{entries[0].first}-{entries[-1].next}-{secrets.token_hex(4)}"
    rows = sum(entry.rows for entry in entries)
    # Never fewer than before: so each block of an earlier run is split into blocks of this one.
    blocks = max(runs.block_count(rows, log.schema), *(entry.blocks for entry in entries))
    manifest = await log.manifest.update(
        lambda m: msgspec.structs.replace(m, building=(name, blocks))
    )
    segments = await log.segments([entry for entry in entries if not entry.blocks])
    builder = _RunBuilder(log, name, blocks, entries, segments, clock())
    built = await builder.build(compaction.level, manifest.last_tombstone)
    trash = Garbage(
        since=clock(),
        merged=(name,) if segments else (),
        claims=tuple(e.first for e in entries if not e.blocks and is_claim(e)),
        runs=tuple((log.run_of(e).id, e.blocks) for e in entries if e.blocks),
    )
    await log.store.ignite.retry(
        lambda: log.manifest.update(lambda now: _replaced(now, built, trash)), _SWAP_S
    )
    log.install_run(compaction.span, entries, built)


def is_claim(entry: IndexEntry) -> bool:
    """Return whether an entry is a claim: a segment without rows that begins an epoch."""
    return entry.rows == 0 and entry.count == 1 and entry.future_max_ts < entry.future_min_ts


def _replaced(manifest: Manifest, built: Run, trash: Garbage) -> Manifest:
    if any(run.id == built.id for run in manifest.runs):
        return manifest  # an earlier attempt with an unknown outcome had succeeded
    before = tuple(run for run in manifest.runs if run.next <= built.first)
    inside = tuple(run for run in manifest.runs if built.first <= run.first < built.next)
    after = tuple(run for run in manifest.runs if run.first >= built.next)
    begin = before[-1].next if before else manifest.first
    if begin != built.first or len(before) + len(inside) + len(after) != len(manifest.runs):
        raise ConflictError("another agent changed the stream's runs during the compaction")
    return msgspec.structs.replace(
        manifest,
        runs=(*before, built, *after),
        building=None,
        garbage=(*manifest.garbage, trash),
    )


@dataclass(frozen=True, slots=True)
class _RunBuilder:
    """Builds one run from adjacent index entries, which are runs or segments.

    ``segments``: the segments of those entries that are not runs. ``now``: the present time (ms).
    """

    log: StreamLog
    name: str
    blocks: int
    entries: Sequence[IndexEntry]
    segments: Sequence[Segment]
    now: int

    async def build(self, level: int, purged: int) -> Run:
        parts = await self._segment_tables()
        table = SegmentTable.concat([table for table, _ in parts])
        future_points = await self._future_points()
        size = await self._put_future_points(future_points)
        if runs.is_sorted(self.log.schema):
            counts, written = await self._put_blocks(table)
        else:
            counts, written = await self._put_rows(table)
        table = replace(table, rows=counts)
        keys = self._recent_keys([keys for _, keys in parts], table)
        encoded = await asyncio.to_thread(runs.encode_segment_table, table, keys)
        await self.log.store.put_run_value(self.log.key, self.name, SEGMENT_TABLE, encoded)
        first, last = self.entries[0], self.entries[-1]
        future_min_ts, future_max_ts = time_range(future_points)
        return Run(
            id=self.name,
            level=level,
            first=first.first,
            count=last.next - first.first,
            rows=int(counts.sum()),
            late=sum(entry.late for entry in self.entries),
            min_ts=min((entry.min_ts for entry in self.entries), default=LATEST),
            max_ts=max((entry.max_ts for entry in self.entries), default=EARLIEST),
            frontier=last.frontier,
            oldest=first.oldest,
            created=last.created,
            future_min_ts=future_min_ts,
            future_max_ts=future_max_ts,
            blocks=self.blocks,
            segments=len(table),
            bytes=size + written + len(encoded),
            epoch=self._epoch(),
            released=self.log.future_points.released,
            last_tombstone=purged,
        )

    async def _segment_tables(self) -> list[tuple[SegmentTable, dict[str, AppendResult]]]:
        earlier = [self.log.run_of(entry) for entry in self.entries if entry.blocks]
        parts = [await self.log.store.segment_table(self.log.key, run.id) for run in earlier]
        if self.segments:
            keys = {k: v for each in self.segments for k, v in each.header.keys.items()}
            parts.append((segment_table_of(self.segments), keys))
        return parts

    def _epoch(self) -> int:
        if self.segments:
            return self.segments[-1].header.epoch
        return self.log.run_of(self.entries[-1]).epoch

    async def _future_points(self) -> pa.RecordBatch:
        pending = await self.log.pending_points(self.entries, self.log.future_points.released)
        return pa.concat_batches(pending) if pending else empty_batch(self.log.schema)

    async def _put_future_points(self, points: pa.RecordBatch) -> int:
        if not points.num_rows:
            return 0
        data = runs.encode_rows([points], self.log.schema)
        await self.log.store.put_run_value(self.log.key, self.name, FUTURE_POINTS, data)
        return len(data)

    async def _put_blocks(self, segments: SegmentTable) -> tuple[runs.Int64s, int]:
        """Store the blocks of the run; return the number of rows in each segment, and the size.

        The size is the number of stored bytes.
        """
        counts = np.zeros(len(segments), np.int64)
        size = 0
        # Small segments are concatenated and split once, not for every block.
        visibility = self.log.visibility(None)
        split = await asyncio.to_thread(
            lambda: runs.split_into_blocks(self._concat(visibility), self.blocks)
        )
        for block in range(self.blocks):
            parts, wider = [split[block]], list[pa.Table]()
            for entry in self.entries:
                if entry.blocks:
                    table = await self.log.block(entry, block % entry.blocks)
                    (parts if entry.blocks == self.blocks else wider).append(table)
            data, positions = await asyncio.to_thread(self._encode, block, parts, wider)
            counts += _count_rows(positions, segments)
            await self.log.store.put_run_value(self.log.key, self.name, str(block), data)
            size += len(data)
        return counts, size

    def _encode(
        self, block: int, parts: Sequence[pa.Table], wider: Sequence[pa.Table]
    ) -> tuple[bytes, runs.Int64s]:
        """Return the encoded block with the number ``block``, and the positions of its rows.

        ``parts``: tables with only rows of this block. ``wider``: tables of larger blocks, from
        which the rows of this block are selected.
        """
        selected = [runs.select_block(table, block, self.blocks) for table in wider]
        table = pa.concat_tables([*parts, *selected])
        return runs.encode_points(table), table[runs.POSITION].to_numpy()

    def _concat(self, visibility: Visibility) -> pa.Table:
        if not self.segments:
            return runs.append_positions(empty_batch(self.log.schema), np.zeros(0, np.int64))
        # Tombstones apply to single segments; without any, all at once take a fifth of the time.
        parts = [[each] for each in self.segments] if visibility.tombstones else [self.segments]
        visible = [_visible(Extent.of(part, visibility)) for part in parts]
        rows = pa.concat_batches([rows.batch for rows in visible])
        return runs.append_positions(rows, np.concatenate([rows.positions for rows in visible]))

    async def _put_rows(self, segments: SegmentTable) -> tuple[runs.Int64s, int]:
        extents = await self.log.extents(self.entries)
        latest_per_key = self.log.policy.latest_per_key
        is_first = self.entries[0].first == self.log.index[0].first
        obsolete_before = self.now - REMOVAL_AGE_MS if is_first else EARLIEST

        def encode() -> tuple[bytes, runs.Int64s]:
            visible = [_visible(extent) for extent in extents]
            if latest_per_key:
                last = _LastOfKey(visible, obsolete_before)
                visible = [rows.filter(last.mask(rows.batch)) for rows in visible]
            positions = np.concatenate([rows.positions for rows in visible])
            batch = pa.concat_batches([rows.batch for rows in visible])
            batch = runs.append_position_deltas(batch, positions)
            return runs.encode_rows([batch], batch.schema), positions

        data, positions = await asyncio.to_thread(encode)
        await self.log.store.put_run_value(self.log.key, self.name, "0", data)
        return _count_rows(positions, segments), len(data)

    def _recent_keys(
        self, parts: Sequence[dict[str, AppendResult]], segments: SegmentTable
    ) -> dict[str, AppendResult]:
        """Return the idempotency keys that a recovery still needs: key -> result of the append.

        ``parts``: the idempotency keys of all merged segments. ``segments``: the segment table of
        the run.
        """
        recent = np.flatnonzero(segments.created >= self.now - int(MAX_AGE_S * 1000))
        oldest = int(segments.first[recent[0]]) if len(recent) else LATEST
        keys = self.log.keys
        return {key: n for key, n in _from(parts, oldest) if not keys.is_forgotten(key, n)}


class _LastOfKey:
    """Selects the last event of each key in a sequence of batches (log compaction).

    ``parts``: the batches in the order of positions; call ``mask`` for each batch in this order. If
    the last event removes the key, the event is retained too, because an earlier run may still have
    the key, and readers that are away the earlier event. Removals of series from before the time
    ``obsolete_before`` (ms) are dropped: otherwise, a stream would grow with each series that ever
    existed.
    """

    def __init__(self, parts: Sequence[PositionedRows], obsolete_before: int) -> None:
        keys = (key for rows in parts for key in rows.batch["key"].to_pylist())
        self._last = {key: number for number, key in enumerate(keys)}
        self._end = sum(rows.batch.num_rows for rows in parts)
        self._number = 0
        self._obsolete_before = obsolete_before

    def mask(self, rows: pa.RecordBatch) -> pa.BooleanArray:
        """Return a mask of the next batch; True: the row is the last event of its key."""
        begin = self._number
        self._number += rows.num_rows
        events = zip(*(rows[name].to_pylist() for name in ("key", "event", "ts")), strict=True)
        # The last row remains in any case: no run is without rows.
        return pa.array(
            [
                self._last[key] == number
                and (number == self._end - 1 or not self._is_obsolete(key, event, ts))
                for number, (key, event, ts) in enumerate(events, begin)
            ],
            pa.bool_(),
        )

    def _is_obsolete(self, key: str, event: str, ts: int) -> bool:
        return event == REMOVED and ts < self._obsolete_before and key.startswith(SERIES_PREFIX)


def _visible(extent: Extent) -> PositionedRows:
    return extent.select(int(extent.segments.first[0]), int(extent.segments.next[-1]))


def _from(
    parts: Sequence[dict[str, AppendResult]], oldest: int
) -> Iterator[tuple[str, AppendResult]]:
    for part in parts:
        for key, appended in part.items():
            if appended.first >= oldest:
                yield key, appended


def _count_rows(positions: runs.Int64s, segments: SegmentTable) -> runs.Int64s:
    return np.bincount(segments.find_all(positions), minlength=len(segments))
