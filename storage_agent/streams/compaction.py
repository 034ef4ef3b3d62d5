"""Compaction: many small commits become a run, and several runs a larger one.

Size-tiered, as in Cassandra and in O'Neil et al., "The log-structured merge-tree" (1996): runs of
one level that lie side by side are merged when there are enough of them. A run is built beside
what it replaces, and one compare-and-set of the manifest puts it in its place.
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
from storage_agent.streams import runs
from storage_agent.streams.index import EARLIEST, LATEST, Entry, Index, time_range
from storage_agent.streams.log import StreamLog
from storage_agent.streams.manifest import Manifest, Trash
from storage_agent.streams.pieces import Gone, Piece, Rows, commits_of
from storage_agent.streams.recent_keys import AGE_S
from storage_agent.streams.runs import Commits, Run
from storage_agent.streams.segments import Appended, Segment, no_rows

COMMITS = 256
"""So many commits are merged into a run."""

ROWS = 2**16
"""As are fewer with so many rows."""

FAN_IN = 8
"""So many runs of one level are merged into one of the next."""

MOST_ROWS = 600_000
MOST_BYTES = 5 * 2**20
"""No value may be larger than a segment of Ignite's log: it would never be written."""

_MOST_COMMITS = 2**16
_SWAP_S = 5.0


@dataclass(frozen=True, slots=True)
class Merge:
    """Positions in the index whose entries are to become one run of a level."""

    span: range
    level: int


def next_merge(index: Index, levels: Sequence[int], limit: int) -> Merge | None:
    """Return what is to be merged next; ``levels`` are those of the runs, which come first.

    Only commits that end at or before ``limit`` are merged, and never the last.
    """
    return _merge_of_commits(index, len(levels), limit) or _merge_of_runs(index, levels)


def _merge_of_commits(index: Index, begin: int, limit: int) -> Merge | None:
    rows = size = 0
    for position in range(begin, len(index) - 1):
        entry = index[position]
        if entry.next > limit:
            return None
        rows += entry.rows
        size += entry.bytes
        full = size > MOST_BYTES and position > begin
        if full or rows >= ROWS or position - begin + 1 >= COMMITS:
            return Merge(range(begin, position if full else position + 1), 1)
    return None


def _merge_of_runs(index: Index, levels: Sequence[int]) -> Merge | None:
    end = len(levels)
    while end:
        level = levels[end - 1]
        begin = end - 1
        while begin and levels[begin - 1] == level:
            begin -= 1
        if end - begin >= FAN_IN and (span := _fitting(index, begin, end)) is not None:
            return Merge(span, level + 1)
        end = begin
    return None


def _fitting(index: Index, begin: int, end: int) -> range | None:
    """Return the first runs side by side that are not too large together, at least two."""
    while end - begin > 1:
        rows = commits = size = 0
        stop = begin
        for position in range(begin, min(end, begin + FAN_IN)):
            entry = index[position]
            rows += entry.rows
            commits += entry.commits
            size += entry.bytes
            if rows > MOST_ROWS or commits > _MOST_COMMITS or size > MOST_BYTES:
                break
            stop = position + 1
        if stop - begin > 1:
            return range(begin, stop) if end - begin >= FAN_IN else None
        begin += 1
    return None


async def compact(log: StreamLog, merge: Merge, clock: Clock) -> None:
    """Make a run of some entries and put it in their place.

    Raises ``UnavailableError``, and ``FencedError`` or ``ConflictError`` where another agent keeps
    the stream.
    """
    entries = [log.index[position] for position in merge.span]
    name = f"{entries[0].first}-{entries[-1].next}-{secrets.token_hex(4)}"
    rows = sum(entry.rows for entry in entries)
    # Never fewer than before: each block of an earlier run goes into those that it divides into.
    blocks = max(runs.blocks_for(rows, log.schema), *(entry.blocks for entry in entries))
    manifest = await log.manifest.update(
        lambda m: msgspec.structs.replace(m, building=(name, blocks))
    )
    segments = await log.segments([entry for entry in entries if not entry.blocks])
    build = _Build(log, name, blocks, entries, segments, clock())
    built = await build.build(merge.level, manifest.deleted)
    trash = Trash(
        since=clock(),
        merged=(name,) if segments else (),
        claims=tuple(e.first for e in entries if not e.blocks and is_claim(e)),
        runs=tuple((log.run_of(e).id, e.blocks) for e in entries if e.blocks),
    )
    await log.store.ignite.insist(
        lambda: log.manifest.update(lambda now: _replaced(now, built, trash)), _SWAP_S
    )
    log.put_in_place(merge.span, entries, built)


def is_claim(entry: Entry) -> bool:
    """Tell whether a commit is one that begins an epoch: a number without any row."""
    return entry.rows == 0 and entry.count == 1 and entry.ahead_max_ts < entry.ahead_min_ts


def _replaced(manifest: Manifest, built: Run, trash: Trash) -> Manifest:
    if any(run.id == built.id for run in manifest.runs):
        return manifest  # what was taken for lost had landed
    before = tuple(run for run in manifest.runs if run.next <= built.first)
    inside = tuple(run for run in manifest.runs if built.first <= run.first < built.next)
    after = tuple(run for run in manifest.runs if run.first >= built.next)
    begin = before[-1].next if before else manifest.first
    if begin != built.first or len(before) + len(inside) + len(after) != len(manifest.runs):
        raise ConflictError("the runs changed while they were merged")
    return msgspec.structs.replace(
        manifest,
        runs=(*before, built, *after),
        building=None,
        trash=(*manifest.trash, trash),
    )


@dataclass(frozen=True, slots=True)
class _Build:
    """One run in the making, of entries side by side: runs, or commits (``segments``), or both."""

    log: StreamLog
    name: str
    blocks: int
    entries: Sequence[Entry]
    segments: Sequence[Segment]
    now: int

    async def build(self, level: int, purged: int) -> Run:
        parts = await self._commits()
        commits = Commits.joined([commits for commits, _ in parts])
        ahead = await self._ahead()
        size = await self._put_ahead(ahead)
        if runs.is_sorted(self.log.schema):
            counts, written = await self._put_blocks(commits)
        else:
            counts, written = await self._put_rows(commits)
        commits = replace(commits, rows=counts)
        keys = self._recent([keys for _, keys in parts], commits)
        encoded = runs.encode_commits(commits, keys)
        await self.log.store.put_part(self.log.key, self.name, "commits", encoded)
        first, last = self.entries[0], self.entries[-1]
        least, most = time_range(ahead)
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
            ahead_min_ts=least,
            ahead_max_ts=most,
            blocks=self.blocks,
            commits=len(commits),
            bytes=size + written + len(encoded),
            epoch=self._epoch(),
            released=self.log.ahead.released,
            purged=purged,
        )

    async def _commits(self) -> list[tuple[Commits, dict[str, Appended]]]:
        earlier = [self.log.run_of(entry) for entry in self.entries if entry.blocks]
        parts = [await self.log.store.commits(self.log.key, run.id) for run in earlier]
        if self.segments:
            keys = {k: v for each in self.segments for k, v in each.header.keys.items()}
            parts.append((commits_of(self.segments), keys))
        return parts

    def _epoch(self) -> int:
        if self.segments:
            return self.segments[-1].header.epoch
        return self.log.run_of(self.entries[-1]).epoch

    async def _ahead(self) -> pa.RecordBatch:
        waiting = await self.log.waiting(self.entries, self.log.ahead.released)
        return pa.concat_batches(waiting) if waiting else no_rows(self.log.schema)

    async def _put_ahead(self, ahead: pa.RecordBatch) -> int:
        if not ahead.num_rows:
            return 0
        data = runs.encode_rows([ahead], self.log.schema)
        await self.log.store.put_part(self.log.key, self.name, "ahead", data)
        return len(data)

    async def _put_blocks(self, commits: Commits) -> tuple[runs.Int64s, int]:
        """Write the blocks of points one after the other; returns the rows of each commit."""
        counts = np.zeros(len(commits), np.int64)
        size = 0
        # Small commits are joined once, not for every block, and divided once.
        gone = self.log.gone(None)
        divided = await asyncio.to_thread(lambda: runs.divided(self._joined(gone), self.blocks))
        for block in range(self.blocks):
            parts, wider = [divided[block]], list[pa.Table]()
            for entry in self.entries:
                if entry.blocks:
                    table = await self.log.block(entry, block % entry.blocks)
                    (parts if entry.blocks == self.blocks else wider).append(table)
            data, numbers = await asyncio.to_thread(self._encoded, block, parts, wider)
            counts += _counted(numbers, commits)
            await self.log.store.put_part(self.log.key, self.name, str(block), data)
            size += len(data)
        return counts, size

    def _encoded(
        self, block: int, parts: Sequence[pa.Table], wider: Sequence[pa.Table]
    ) -> tuple[bytes, runs.Int64s]:
        """Encode a block of ``parts``, and of what is in blocks that held more series."""
        ours = [runs.in_block(table, block, self.blocks) for table in wider]
        table = pa.concat_tables([*parts, *ours])
        return runs.encode_points(table), table[runs.NUMBER].to_numpy()

    def _joined(self, gone: Gone) -> pa.Table:
        if not self.segments:
            return runs.with_numbers(no_rows(self.log.schema), np.zeros(0, np.int64))
        # Deletions look at commits one by one; hundreds at once take a fifth of the time.
        parts = [[each] for each in self.segments] if gone.deletions else [self.segments]
        living = [_living(Piece.of(part, gone)) for part in parts]
        joined = pa.concat_batches([rows.batch for rows in living])
        return runs.with_numbers(joined, np.concatenate([rows.numbers for rows in living]))

    async def _put_rows(self, commits: Commits) -> tuple[runs.Int64s, int]:
        pieces = await self.log.pieces(self.entries)
        living = [_living(piece) for piece in pieces]
        if self.log.by_key:
            last = _LastOfKey(living)
            living = [rows.filter(last.among(rows.batch)) for rows in living]
        numbers = np.concatenate([rows.numbers for rows in living])
        joined = runs.numbered(pa.concat_batches([rows.batch for rows in living]), numbers)
        data = await asyncio.to_thread(runs.encode_rows, [joined], joined.schema)
        await self.log.store.put_part(self.log.key, self.name, "0", data)
        return _counted(numbers, commits), len(data)

    def _recent(
        self, parts: Sequence[dict[str, Appended]], commits: Commits
    ) -> dict[str, Appended]:
        """Return the idempotency keys that a restart must still know."""
        late = np.flatnonzero(commits.created >= self.now - int(AGE_S * 1000))
        oldest = int(commits.first[late[0]]) if len(late) else LATEST
        return dict(_from(parts, oldest))


class _LastOfKey:
    """Finds the last event of each key, to be asked for rows in their order; see log compaction.

    An event that removes a key stays, for a run before this one may still have the key.
    """

    def __init__(self, parts: Sequence[Rows]) -> None:
        keys = (key for rows in parts for key in rows.batch["key"].to_pylist())
        self._last = {key: number for number, key in enumerate(keys)}
        self._number = 0

    def among(self, rows: pa.RecordBatch) -> pa.BooleanArray:
        """Return which of the next rows are the last of their key."""
        begin = self._number
        self._number += rows.num_rows
        keys = rows["key"].to_pylist()
        return pa.array([self._last[key] == begin + at for at, key in enumerate(keys)], pa.bool_())


def _living(piece: Piece) -> Rows:
    return piece.between(int(piece.commits.first[0]), int(piece.commits.next[-1]))


def _from(parts: Sequence[dict[str, Appended]], oldest: int) -> Iterator[tuple[str, Appended]]:
    for part in parts:
        for key, appended in part.items():
            if appended.first >= oldest:
                yield key, appended


def _counted(numbers: runs.Int64s, commits: Commits) -> runs.Int64s:
    return np.bincount(commits.of(numbers), minlength=len(commits))
