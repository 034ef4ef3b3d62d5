"""The log of one stream: what Ignite holds of it, as far as this agent knows."""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mistbow.errors import ConflictError, UnavailableError
from storage_agent import metrics
from storage_agent.streams.ahead import Ahead
from storage_agent.streams.deletions import Deletions
from storage_agent.streams.index import EARLIEST, LATEST, Entry, Index
from storage_agent.streams.manifest import Deletion, Fence, ManifestCell
from storage_agent.streams.pieces import Gone, Piece
from storage_agent.streams.recent_keys import AGE_S, RecentKeys
from storage_agent.streams.runs import NUMBER, Commits, Run, by_number, is_sorted, numbers_of
from storage_agent.streams.segment_store import SegmentStore
from storage_agent.streams.segments import Segment, no_rows
from storage_agent.streams.state import StateCell

_ASKED_S = 60.0
HOLD = "hold."
"""What the attributes begin with that say who needs rows."""


Listener = Callable[[Segment, Entry], None]
"""Is told of each segment, in their order, after it is stored or found in Ignite."""


class StreamLog:
    """A stream's index, epoch and frontier; reading its pieces; waiting for its changes.

    Only the stream's ``Writer`` and its ``Housekeeper`` call what changes it.
    ``key`` is what its keys in Ignite begin with: its name, unless an earlier stream had that.
    ``by_key``: of events with the same key only the last is worth keeping.
    ``expired_before`` returns the time (ms) before which all that was created has expired, and
    ``merge_limit`` the number from which on commits must stay as they are.
    """

    def __init__(
        self,
        name: str,
        schema: pa.Schema,
        store: SegmentStore,
        fence: Fence = lambda: 0,
        key: str | None = None,
    ) -> None:
        self.name = name
        self.key = key or name
        self.deleted = False
        self.by_key = False
        self.schema = schema
        self.index = Index()
        self.keys = RecentKeys()
        self.state = StateCell(store.ignite, self.key)
        self.ahead = Ahead()
        self.epoch = 0
        self.frontier = 0
        self.bytes = 0
        self.work = asyncio.Event()
        self.listener: Listener | None = None
        self.store = store
        self.manifest = ManifestCell(store.ignite, self.key, fence)
        self.runs: dict[tuple[int, int], Run] = {}
        self._merged: dict[int, tuple[Deletion, int]] = {}
        self._deletions = Deletions()
        self._looked = self.manifest.current, self._merged
        self.expired_before: Callable[[], int] = _nothing_expires
        self.full: Callable[[], bool] = lambda: False
        self.retention_ms: Callable[[], int | None] = lambda: None
        self.merge_limit: Callable[[], int] = lambda: self.head
        self._begin = 0
        self._changed = asyncio.Event()
        self._asked_until = 0.0

    @property
    def head(self) -> int:
        """The next number."""
        return self.index.head if len(self.index) else self._begin

    @property
    def first(self) -> int:
        """The first number that may still be there."""
        return self.index.first if len(self.index) else self._begin

    def holds(self, now: int) -> dict[str, tuple[int, int]]:
        """Return by who needs rows for how long (ms) that is, and until when it holds."""
        found = {}
        for name, value in self.attributes.items():
            match value:
                case [int(keep_ms), int(until)] if name.startswith(HOLD) and until > now:
                    found[name.removeprefix(HOLD)] = (keep_ms, until)
        return found

    @property
    def attributes(self) -> dict[str, Any]:
        """What the stream's writers noted of it."""
        return self.state.current.attributes

    async def frontier_at(self, number: int) -> int:
        """Return how far event time is for who has read all rows before ``number``."""
        if number >= self.head:
            return self.frontier
        position = self.index.at(number)
        entry = self.index[position]
        before = self.index[position - 1].frontier if position else 0
        if entry.blocks and number > entry.first:
            commits = await self.commits(entry)
            if commit := commits.at(number):
                return int(commits.frontier[commit - 1])
        return before

    def gone(self, run: Run | None) -> Gone:
        """Return what is not there any more of a run, or of a commit: None."""
        return Gone(self.expired_before(), self.deletions, 0 if run is None else run.purged)

    @property
    def deletions(self) -> Deletions:
        """What readers have to take away, where it is not purged."""
        if self._looked[0] is not self.manifest.current or self._looked[1] is not self._merged:
            self._looked = self.manifest.current, self._merged
            merged = (deletion for deletion, _ in self._merged.values())
            known = (*self.manifest.current.deletions, *merged)
            if known != self._deletions.all:
                self._deletions = Deletions(known)
        return self._deletions

    async def segments(self, entries: Sequence[Entry]) -> list[Segment]:
        """Return the commits of entries of the index that are no runs, as they were stored."""
        found = await self.store.get_all(self.key, [entry.first for entry in entries])
        if len(found) != len(entries):
            raise UnavailableError(f"the stream {self.name} changed meanwhile", hint="Try again.")
        return found

    async def pieces(self, entries: Sequence[Entry]) -> list[Piece]:
        """Return what entries of the index stand for, with all rows in order of their numbers."""
        commits = iter(await self.segments([entry for entry in entries if not entry.blocks]))
        return [
            await self._run_piece(self.run_of(entry))
            if entry.blocks
            else Piece.of([next(commits)], self.gone(None))
            for entry in entries
        ]

    async def block(self, entry: Entry, block: int) -> pa.Table:
        """Return what is there of a block of a run of points, with the rows' numbers."""
        return (await self.blocks([(entry, block)]))[0]

    async def blocks(self, blocks: Sequence[tuple[Entry, int]]) -> list[pa.Table]:
        """Return the same of several blocks, of any runs."""
        runs = [self.run_of(entry) for entry, _ in blocks]
        wanted = [(run.id, block) for run, (_, block) in zip(runs, blocks, strict=True)]
        tables = await self.store.points(self.key, wanted)
        return [await self._living(*each) for each in zip(tables, runs, strict=True)]

    async def _living(self, table: pa.Table, run: Run) -> pa.Table:
        gone = self.gone(run)
        if run.oldest < gone.before:
            commits, _ = await self.store.commits(self.key, run.id)
            living = int(np.searchsorted(commits.created, gone.before))
            begin = int(commits.first[living]) if living < len(commits) else run.next
            table = table.filter(pc.field(NUMBER) >= begin)
        if gone.deletions:
            batches = [gone.left(batch, run.first) for batch in table.to_batches()]
            table = pa.Table.from_batches(batches, table.schema)
        return table

    async def _run_piece(self, run: Run) -> Piece:
        gone = self.gone(run)
        known: Piece | None = self.store.cache.get(f"{self.key}/piece/{run.id}")
        if known is not None:
            return replace(known, gone=gone)
        commits, _ = await self.store.commits(self.key, run.id)
        if is_sorted(self.schema):
            wanted = [(run.id, block) for block in range(run.blocks)]
            blocks = await self.store.points(self.key, wanted)
            rows, numbers = await asyncio.to_thread(by_number, blocks)
        else:
            rows, numbers = numbers_of(await self.store.rows(self.key, run.id))
        piece = Piece(rows, numbers, commits, await self._ahead_of(run), gone)
        self.store.cache.put(f"{self.key}/piece/{run.id}", piece, piece.size)
        return piece

    async def _ahead_of(self, run: Run) -> pa.RecordBatch:
        if run.ahead_max_ts < run.ahead_min_ts:
            return no_rows(self.schema)
        return await self.store.rows(self.key, run.id, "ahead")

    async def waiting(self, entries: Sequence[Entry], released: int) -> list[pa.RecordBatch]:
        """Return the points ahead of entries that were not released up to a time."""
        found = []
        for entry in entries:
            if entry.ahead_max_ts <= released:
                continue
            if entry.blocks:
                run = self.run_of(entry)
                ahead = await self._ahead_of(run)
                gone = self.gone(run)
                found.append(gone.waiting(ahead, run.first, run.created, released))
            else:
                [piece] = await self.pieces([entry])
                found.append(piece.waiting(released))
        return found

    async def commits(self, entry: Entry) -> Commits:
        """Return the commits of an entry that is a run."""
        return (await self.store.commits(self.key, self.run_of(entry).id))[0]

    async def seek(self, time: int) -> int:
        """Return the greatest start of a commit before which every row has ``ts <= time``."""
        number = self.index.seek(time)
        entry = self.index[self.index.at(number)] if number < self.head else None
        if entry is None or not entry.blocks:
            return number
        commits = await self.commits(entry)
        later = np.flatnonzero(commits.top > time)
        return int(commits.first[later[0]]) if len(later) else entry.next

    def run_of(self, entry: Entry) -> Run:
        """Return the run that an entry stands for."""
        run = self.runs.get((entry.first, entry.next))
        if run is None:
            raise UnavailableError(f"the stream {self.name} changed meanwhile", hint="Try again.")
        return run

    @property
    def asked(self) -> bool:
        """Whether somebody asked lately, so that the frontier is worth moving."""
        return asyncio.get_running_loop().time() < self._asked_until

    def ask(self) -> asyncio.Event:
        """Have the frontier kept fresh for a while; returns what is set at the next change."""
        if not self.asked:
            self.work.set()
        self._asked_until = asyncio.get_running_loop().time() + _ASKED_S
        return self._changed

    async def recover(self) -> None:
        """Read everything from Ignite; to be called once, before all else."""
        await self.manifest.load()
        await self.state.load()
        manifest = self.manifest.current
        for run in manifest.runs:
            self.index.append(Entry.of_run(run))
            self.runs[run.first, run.next] = run
        self._begin = manifest.next
        if manifest.runs:
            last = manifest.runs[-1]
            self.epoch, self.frontier = last.epoch, last.frontier
            self.ahead = Ahead(last.released)
            self.ahead.recover(self.index)
            await self._recover_keys(manifest.runs)
        await self.catch_up()
        self.move_frontier(self.state.current.frontier)

    async def catch_up(self) -> None:
        """Follow the segments that others stored at and after the head."""
        while (segment := await self.store.get(self.key, self.head)) is not None:
            self._follow(segment)

    async def append(self, segment: Segment, data: bytes) -> bool:
        """Store a commit at the head; returns False when another one was there first.

        May be repeated with the same segment after an error.
        """
        winner = await self.store.put(segment, data)
        won = winner.header.nonce == segment.header.nonce
        if won:
            self.bytes += len(data)
        self._follow(winner)
        return won

    def put_in_place(self, span: range, entries: Sequence[Entry], run: Run) -> None:
        """Have a run that is stored stand where it was made of entries."""
        self.runs[run.first, run.next] = run
        entry = Entry.of_run(run)
        self.index.replace(span, entry)
        self.ahead.merge([each.first for each in entries], entry)

    def end(self) -> None:
        """Have the stream be no more; who follows it hears of that."""
        self.deleted = True
        self._announce()

    async def reconcile(self) -> None:
        """Follow the manifest as Ignite has it, after a change of it whose outcome is not known."""
        await self.manifest.load()
        self.follow_manifest()

    def follow_manifest(self) -> None:
        """Have runs and evictions that the manifest tells of stand in the index too.

        Raises ``ConflictError`` where they are of commits that this agent has otherwise.
        """
        manifest = self.manifest.current
        evicted = 0
        while evicted < len(self.index) - 1 and self.index[evicted].next <= manifest.first:
            evicted += 1
        if evicted:
            self.forget(evicted)
        for run in manifest.runs:
            known = self.runs.get((run.first, run.next))
            if known is not None and known.id == run.id:
                continue
            begin, end = self.index.at(run.first), self.index.at(run.next)
            entries = [self.index[position] for position in range(begin, end)]
            if not entries or (entries[0].first, entries[-1].next) != (run.first, run.next):
                raise ConflictError("the runs are not those of this agent")
            self.put_in_place(range(begin, end), entries, run)

    async def remove_all(self) -> None:
        """Remove everything of a stream that is deleted; what is gone already does no harm."""
        await self.manifest.load()
        manifest = self.manifest.current
        trash = [run for each in manifest.trash for run in each.runs]
        if manifest.building is not None:
            trash.append(manifest.building)
        tail = []
        number = manifest.next
        while (segment := await self.store.get(self.key, number)) is not None:
            tail.append(number)
            number = segment.next
        # The last first: so what is left of it can always be found again.
        await self.store.remove_commits(self.key, tail[::-1])
        merged = {name for each in manifest.trash for name in each.merged}
        for name in merged | {run.id for run in manifest.runs}:
            firsts = await self.store.firsts_of(self.key, name)
            await self.store.remove_commits(self.key, firsts)
        for name, blocks in [*trash, *((run.id, run.blocks) for run in manifest.runs)]:
            await self.store.remove_run(self.key, name, blocks)

    def outlive(self, deletions: Iterable[Deletion]) -> None:
        """Have deletions apply for as long as what was replaced so far can still be read.

        Who began to read before the merge that applied them for good reads what it replaced. A
        restart ends such reads, so this need not be stored.
        """
        trash = self.manifest.current.trash
        oldest = trash[0].since if trash else LATEST
        self._merged = {n: each for n, each in self._merged.items() if oldest <= each[1]}
        if trash:
            newest = max(each.since for each in trash)
            self._merged |= {each.id: (each, newest) for each in deletions}

    def drop_run(self, name: str) -> None:
        """Forget a run that is removed: who still wants it has to look again."""
        for place, run in list(self.runs.items()):
            if run.id == name:
                del self.runs[place]

    def forget(self, entries: int) -> None:
        """Have the first entries be no more."""
        firsts = [self.index[position].first for position in range(entries)]
        self.index.drop(entries)
        self.ahead.forget(firsts)

    def move_frontier(self, frontier: int) -> None:
        """Announce a frontier that is stored; it never goes back."""
        self.frontier = max(self.frontier, frontier)
        self._announce()

    def _follow(self, segment: Segment) -> None:
        header = segment.header
        entry = Entry.of(segment, segment.stored)
        self.index.append(entry)
        self.keys.learn(header.keys)
        self.ahead.absorb(segment, entry)
        self.epoch = max(self.epoch, header.epoch)
        if self.listener is not None:
            self.listener(segment, entry)
        metrics.HEAD.labels(self.name).set(self.head)
        self.move_frontier(header.frontier)

    def _announce(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    async def _recover_keys(self, runs: Sequence[Run]) -> None:
        oldest = runs[-1].created - int(AGE_S * 1000)
        recent = [run for run in runs if run.created >= oldest]
        for run in recent:
            _, known = await self.store.commits(self.key, run.id)
            self.keys.learn(known)


def _nothing_expires() -> int:
    return EARLIEST
