"""Keeping streams in order: merging, evicting what has expired, removing what nothing needs.

One stream after the other, in one task, beside reading and writing.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass

import msgspec

from mistbow.clock import Clock
from mistbow.errors import ConflictError, FencedError, UnavailableError
from mistbow.telemetry import get_logger
from storage_agent import metrics
from storage_agent.streams.compaction import MOST_BYTES, Merge, compact, is_claim, next_merge
from storage_agent.streams.deletions import Bools, Deletions
from storage_agent.streams.log import StreamLog
from storage_agent.streams.manifest import Deletion, Manifest, Trash
from storage_agent.streams.runs import Run

log = get_logger(__name__)

GRACE_MS = 60_000
"""What was replaced is removed so much later: who began to read it has finished."""

MOST_UNHEARD = 10_000
"""So many deletions, and keys of theirs, are kept at most for who has not heard of them."""

_MOST_DELETIONS = 256
"""With more of them, commits are merged early, so that deletions need not be kept for them."""

_MOST_LOOKED_AT = 4
"""So few commits that are left then are looked at, for which deletions they still need."""

_EVICTED = 5000
"""So many entries are evicted at once: the manifest names each."""

_MERGES = 4
"""So many merges of a stream before the next stream has its turn."""


Unheard = Callable[[str], Callable[[Deletion], bool]]
"""Tells of a stream's name which of its deletions are to be heard of."""


@dataclass(frozen=True, slots=True)
class Bound:
    """How many bytes streams may take; ``evict``: the oldest goes first, or writes are refused."""

    most_bytes: int | None = None
    evict: bool = True


class Housekeeper:
    """Keeps the logs of an agent; ``logs`` and ``bound`` return them as they are now.

    ``evictable`` tells of a stream's name whether what is oldest of it may go for want of room,
    ``unheard`` which of its deletions some replica of it may not have heard of, ``owed`` which
    are kept for that however many they are.
    """

    def __init__(
        self,
        logs: Callable[[], Sequence[StreamLog]],
        clock: Clock,
        bound: Callable[[], Bound],
        evictable: Callable[[str], bool],
        unheard: Unheard = lambda _: lambda _: False,
        owed: Unheard = lambda _: lambda _: False,
    ) -> None:
        self.full = False
        self._logs = logs
        self._clock = clock
        self._bound = bound
        self._evictable = evictable
        self._unheard = unheard
        self._owed = owed
        # One at a time, whoever calls: it counts on nobody else changing the runs.
        self._turn = asyncio.Lock()
        self._fenced: set[str] = set()
        self._doubtful: set[str] = set()

    async def keep(self) -> None:
        """Look at each stream once; raises ``UnavailableError``."""
        async with self._turn:
            await self._keep_all()

    async def _keep_all(self) -> None:
        for each in self._logs():
            if each.key not in self._fenced and not each.deleted:
                await self._try(each, self._keep(each))
        await self._make_room()

    async def _try(self, each: StreamLog, work: Awaitable[None]) -> None:
        """Do something to a stream, and remember if it is not known what came of it."""
        try:
            await work
        except (FencedError, ConflictError) as error:
            log.error("another agent keeps this stream", stream=each.name, error=error.message)
            self._fenced.add(each.key)
        except UnavailableError as error:
            # What was on its way may have landed.
            self._doubtful.add(each.key)
            if not each.store.ignite.connected:
                raise
            log.info("not kept in order yet", stream=each.name, error=error.message)
        except Exception as error:
            self._doubtful.add(each.key)
            log.error("not kept in order", stream=each.name, exc_info=error)

    async def _keep(self, each: StreamLog) -> None:
        if each.key in self._doubtful:
            await each.reconcile()
            self._doubtful.discard(each.key)
        await self._empty(each)
        await self._evict(each, min(_expired(each), _EVICTED))
        for _ in range(_MERGES):
            merge = self._next(each)
            if merge is None:
                break
            await compact(each, merge, self._clock)
            metrics.MERGES.labels(each.name).inc()
        await self._settle(each)

    def _next(self, each: StreamLog) -> Merge | None:
        runs = each.manifest.current.runs
        levels = [run.level for run in runs]
        found = next_merge(each.index, levels, each.merge_limit())
        if found is not None:
            return found
        if not each.manifest.current.deletions:
            return None
        if len(_of_commits(each)) > _MOST_DELETIONS and (tail := _tail(each)):
            return Merge(tail, 1)
        for position, run in enumerate(runs):
            if _touching(each.deletions, run) is not None:
                return Merge(range(position, position + 1), run.level)
        return None

    async def _settle(self, each: StreamLog) -> None:
        """Forget deletions that no commit, no run and no replica needs any more."""
        each.outlive(())
        manifest = each.manifest.current
        if not manifest.deletions:
            return
        needed = await _needed_by_commits(each)
        needed |= _newest(filter(self._unheard(each.name), manifest.deletions))
        needed |= {d.id for d in filter(self._owed(each.name), manifest.deletions)}
        for run in manifest.runs:
            needed |= each.deletions.ids(_touching(each.deletions, run))
        over = {d.id for d in manifest.deletions} - needed

        def without(now: Manifest) -> Manifest:
            # Others may have come meanwhile.
            left = tuple(d for d in now.deletions if d.id not in over)
            return msgspec.structs.replace(now, deletions=left)

        if over:
            each.outlive(d for d in manifest.deletions if d.id in over)
            await each.manifest.update(without)

    async def _evict(self, each: StreamLog, entries: int) -> None:
        if not entries:
            return
        gone = [each.index[position] for position in range(entries)]
        trash = Trash(
            since=self._clock(),
            commits=tuple(e.first for e in gone if not e.blocks and not is_claim(e)),
            runs=tuple(
                (run.id, run.blocks) for run in map(each.run_of, (e for e in gone if e.blocks))
            ),
        )
        begin = gone[-1].next

        def without(manifest: Manifest) -> Manifest:
            if manifest.first >= begin:
                return manifest  # what was taken for lost had landed
            return msgspec.structs.replace(
                manifest,
                first=begin,
                runs=tuple(run for run in manifest.runs if run.first >= begin),
                trash=(*manifest.trash, trash),
            )

        await each.manifest.update(without)
        each.forget(entries)
        metrics.EVICTED_ROWS.labels(each.name).inc(sum(entry.rows for entry in gone))

    async def _empty(self, each: StreamLog) -> None:
        """Remove what has been of no use for long enough."""
        if each.manifest.current.building is not None:
            # Of a run that was not finished before a restart or an error.
            await each.manifest.update(lambda m: _abandoned(m, self._clock()))
        for trash in each.manifest.current.trash:
            if 0 <= self._clock() - trash.since < GRACE_MS:
                return
            await self._remove(each, trash)
            await each.manifest.update(lambda m: msgspec.structs.replace(m, trash=m.trash[1:]))

    async def _remove(self, each: StreamLog, trash: Trash) -> None:
        for run in trash.merged:
            commits, _ = await each.store.commits(each.key, run)
            firsts = commits.first.tolist()
            await each.store.remove_commits(each.key, [n for n in firsts if n not in trash.claims])
        await each.store.remove_commits(each.key, trash.commits)
        for run, blocks in trash.runs:
            await each.store.remove_run(each.key, run, blocks)
            each.drop_run(run)

    async def _make_room(self) -> None:
        """Evict the oldest entries while streams take more than they may."""
        bound = self._bound()
        logs = self._logs()
        taken = sum(each.index.bytes for each in logs)
        metrics.STORED_BYTES.set(taken)
        if bound.most_bytes is None or taken <= bound.most_bytes:
            self.full = False
            return
        self.full = not bound.evict
        while bound.evict and taken > bound.most_bytes:
            oldest = min(
                (each for each in logs if self._may_evict(each)),
                key=lambda each: each.index[0].created,
                default=None,
            )
            if oldest is None:
                self.full = True
                return
            taken -= oldest.index[0].bytes
            await self._try(oldest, self._evict(oldest, 1))

    def _may_evict(self, each: StreamLog) -> bool:
        known = each.key not in self._fenced | self._doubtful
        return known and self._evictable(each.name) and _droppable(each)


def _abandoned(manifest: Manifest, now: int) -> Manifest:
    """Have the parts of a run removed that was not finished, unless it is in its place."""
    left = manifest.building
    if left is None or any(run.id == left[0] for run in manifest.runs):
        return msgspec.structs.replace(manifest, building=None)
    trash = Trash(since=now, runs=(left,))
    return msgspec.structs.replace(manifest, building=None, trash=(*manifest.trash, trash))


def _newest(deletions: Iterable[Deletion]) -> set[int]:
    """Return the ids of the last deletions that are not too many, nor of too many keys."""
    room = MOST_UNHEARD
    newest: set[int] = set()
    for each in reversed(list(deletions)):
        room -= 1 + len(each.keys)
        if room < 0 and newest:
            break
        newest.add(each.id)
    return newest


def _of_commits(each: StreamLog) -> list[Deletion]:
    """Return the deletions that may hit commits which are in no run."""
    manifest = each.manifest.current
    return [d for d in manifest.deletions if manifest.next < d.before]


async def _needed_by_commits(each: StreamLog) -> set[int]:
    """Return the ids of deletions that such commits need: if they are many, as few as can be."""
    deletions = _of_commits(each)
    behind = range(len(each.manifest.current.runs), len(each.index))
    if len(deletions) <= _MOST_DELETIONS or len(behind) > _MOST_LOOKED_AT:
        return {d.id for d in deletions}
    needed: set[int] = set()
    indexed = Deletions(deletions)
    for segment in await each.segments([each.index[position] for position in behind]):
        parts = [segment.rows, segment.ahead]
        needed |= await asyncio.to_thread(indexed.hitting, parts, segment.header.first)
    return needed


def _touching(deletions: Deletions, run: Run) -> Bools | None:
    times = min(run.min_ts, run.ahead_min_ts), max(run.max_ts, run.ahead_max_ts)
    return deletions.touching(run.first, times, run.purged)


def _tail(each: StreamLog) -> range | None:
    """Return the positions of the commits behind the runs that may be merged, but the last."""
    begin = end = len(each.manifest.current.runs)
    size = 0
    while end < len(each.index) - 1 and each.index[end].next <= each.merge_limit():
        size += each.index[end].bytes
        if size > MOST_BYTES and end > begin:
            break
        end += 1
    return range(begin, end) if end > begin else None


def _expired(each: StreamLog) -> int:
    """Return how many of the first entries have expired, all of each."""
    before = each.expired_before()
    entries = 0
    while _droppable(each, entries) and each.index[entries].created < before:
        entries += 1
    return entries


def _droppable(each: StreamLog, position: int = 0) -> bool:
    """Tell whether an entry may be evicted: never the last, nor what is still to be followed."""
    if position >= len(each.index) - 1:
        return False
    return each.index[position].next <= each.merge_limit()
