"""The writer of one stream: everything that changes it happens in turn, in one task.

Many appends share a commit: whatever came while the last segment was on its way is the next one.
"""

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
from msgspec.structs import replace as replace_fields

from mistbow.clock import AHEAD_MS, Clock
from mistbow.errors import (
    ConflictError,
    FencedError,
    LostDataError,
    MistbowError,
    StorageFullError,
    UnavailableError,
)
from mistbow.tasks import end
from mistbow.telemetry import get_logger
from storage_agent.ignite_client import IgniteClient
from storage_agent.streams.columns import Columns, size_of
from storage_agent.streams.commit import (
    Append,
    Place,
    segment_of_appends,
    segment_of_claim,
    segment_of_released,
)
from storage_agent.streams.log import HOLD, StreamLog
from storage_agent.streams.manifest import Deletion, Manifest
from storage_agent.streams.segments import Appended, Segment, encode_segment
from storage_agent.streams.state import State

log = get_logger(__name__)

TICK_S = 0.25
"""Least time between two moves of an idle stream's frontier."""

_COMMIT_S = 5.0
_GATHER_S = 0.002
_COMMIT_ROWS = 20_000
_COMMIT_BYTES = 4 * 2**20
_QUEUED_ROWS = 400_000


@dataclass(frozen=True, slots=True)
class _Turn:
    """Something else than an append that the writer does in its turn."""

    run: Callable[[], Awaitable[State]]
    done: asyncio.Future[State]


class Writer:
    """Appends to a stream, claims it, moves its frontier.

    With ``lateness_ms`` the frontier trails the clock by so much and points ahead of the clock
    wait; without, the frontier is where ``advance`` moves it. ``check`` raises while the stream is
    not to be written.
    """

    def __init__(
        self,
        stream: StreamLog,
        ignite: IgniteClient,
        clock: Clock,
        lateness_ms: int | None = None,
        check: Callable[[], None] = lambda: None,
    ) -> None:
        self.lateness_ms = lateness_ms
        self._check = check
        self._log = stream
        self._ignite = ignite
        self._clock = clock
        self._closed = False
        self._owned: int | None = None
        self._queue: deque[Append | _Turn] = deque()
        self._queued_rows = 0
        self._together = 1
        self._moved = 0.0
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to write; the log must be recovered."""
        self._task = asyncio.create_task(self._write(), name=f"writer of {self._log.name}")

    async def close(self) -> None:
        """Stop writing; who still waits is refused, and whoever comes later."""
        self._closed = True
        if self._task is not None:
            await end([self._task])
        self._refuse_queued(UnavailableError("the agent is stopping"))

    async def append(
        self,
        rows: pa.RecordBatch | Columns,
        *,
        epoch: int | None = None,
        key: str | None = None,
        series: Sequence[dict[str, Any]] = (),
        frontier: int = 0,
    ) -> Appended:
        """Store rows, and with them ``frontier``; returns when Ignite has them.

        A known ``key`` changes nothing.

        Raises ``FencedError`` for an older epoch, and ``UnavailableError`` when Ignite is away:
        then the rows may be stored all the same.
        """
        self._check_open()
        self.check_room()
        self._log.manifest.check_room()
        if self._queued_rows > _QUEUED_ROWS:
            raise UnavailableError("too much waits to be stored", hint="Send more slowly.")
        done: asyncio.Future[Appended] = asyncio.get_running_loop().create_future()
        self._queued_rows += rows.num_rows
        self._queue.append(Append(rows, epoch, key, done, series, frontier))
        self._log.work.set()
        return await done

    def check_room(self) -> None:
        """Raise ``StorageFullError`` while streams take as much room as they may."""
        if self._log.full():
            raise StorageFullError(
                "the streams take as much room as they may",
                hint="PUT /config: more most_bytes, a shorter retention, or when_full: evict.",
            )

    async def claim(self) -> State:
        """Begin a new epoch: from then on appends of older ones are refused."""
        return await self._in_turn(self._claim)

    async def own(self) -> int:
        """Claim the stream for this agent, whose clock moves its frontier; returns the epoch."""
        self._owned = (await self.claim()).epoch
        self._log.work.set()
        return self._owned

    async def advance(
        self,
        epoch: int | None,
        frontier: int | None = None,
        attributes: dict[str, Any] | None = None,
    ) -> State:
        """Move the frontier (never back) and merge attributes; a null one is removed."""

        async def move() -> State:
            await self._hear_of_epoch(epoch or 0)
            if (error := self._epoch_error(epoch or 0)) is not None:
                raise error
            return await self._update(epoch or 0, frontier or 0, attributes or {})

        return await self._in_turn(move)

    async def hold(self, holder: str, keep_ms: int, for_ms: int) -> State:
        """Have rows kept for so long after they came at least, until ``for_ms`` from now."""

        async def note() -> State:
            now = self._clock()
            held = self._log.holds(now)
            over = {name: None for name in self._log.attributes if name.startswith(HOLD)}
            kept = {HOLD + name: list(each) for name, each in held.items()}
            new = {HOLD + holder: [keep_ms, now + for_ms]}
            return await self._update(self._log.epoch, 0, {**over, **kept, **new})

        return await self._in_turn(note)

    async def delete(
        self,
        columns: Sequence[str] = (),
        keys: Collection[Sequence[str]] = (),
        min_ts: int | None = None,
        max_ts: int | None = None,
        *,
        before: int | None = None,
        forgotten: bool = False,
    ) -> State:
        """Delete the rows that are there now, or before a number, whose key and time are as said.

        ``keys``: values of ``columns``, any of which will do; none: all rows. Times are in
        milliseconds, inclusive. When this returns no reader gets these rows any more; with
        ``forgotten`` replicas keep them. Raises ``ConflictError`` where rows before the number are
        merged with others.
        """

        async def delete() -> State:
            cell = self._log.manifest
            deletion = Deletion(
                id=0,
                before=self._log.head if before is None else before,
                created=self._clock(),
                columns=tuple(columns),
                keys=tuple(map(tuple, keys)),
                min_ts=min_ts,
                max_ts=max_ts,
                forgotten=forgotten,
            )
            cell.check_room(deletion)

            def change(manifest: Manifest) -> Manifest:
                if before is not None:
                    manifest.check_border(before)
                number = manifest.deleted + 1
                deletions = (*manifest.deletions, replace_fields(deletion, id=number))
                return replace_fields(manifest, deletions=deletions, deleted=number)

            await self._ignite.insist(lambda: cell.update(change), _COMMIT_S)
            return self._log.state.current

        return await self._in_turn(delete)

    async def _in_turn(self, run: Callable[[], Awaitable[State]]) -> State:
        self._check_open()
        turn = _Turn(run, asyncio.get_running_loop().create_future())
        self._queue.append(turn)
        self._log.work.set()
        return await turn.done

    def _check_open(self) -> None:
        if self._closed:
            raise UnavailableError(f"the stream {self._log.name} is closed", hint="Try again.")
        self._check()

    # What follows runs in the writer's task only.

    async def _write(self) -> None:
        while True:
            await self._wait_for_work()
            try:
                await self._do_next()
            except UnavailableError as error:
                self._refuse_queued(error)
            except Exception as error:
                log.error("not written", stream=self._log.name, exc_info=error)
            try:
                await self._keep_house()
            except LostDataError:
                pass  # the guard has told
            except Exception as error:
                log.warning("not kept in order", stream=self._log.name, error=repr(error))

    async def _keep_house(self) -> None:
        if not self._ignite.connected:
            return
        self._check()
        await self._release()
        if not self._queue:
            await self._tick()

    async def _wait_for_work(self) -> None:
        if self._queue:
            return
        timed = self._owned is not None and (self._log.asked or bool(self._log.ahead))
        self._log.work.clear()
        # Not by wait_for: that of Python 3.11 may lose the cancellation that ends this task.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(TICK_S if timed else None):
                await self._log.work.wait()

    async def _do_next(self) -> None:
        if not self._queue:
            return
        self._check()
        if isinstance(turn := self._queue[0], _Turn):
            self._queue.popleft()
            await self._take(turn)
        else:
            await self._gather()
            await self._commit(self._next_appends())

    async def _take(self, turn: _Turn) -> None:
        try:
            _tell(turn.done, await turn.run())
        except asyncio.CancelledError:
            _fail(turn.done, UnavailableError("the stream was closed meanwhile"))
            raise
        except Exception as error:
            _fail(turn.done, error)
            if isinstance(error, UnavailableError) or not isinstance(error, MistbowError):
                raise

    async def _gather(self) -> None:
        """Wait a moment for as many appends as came together the last time.

        Who was answered together sends its next one at about the same time; a commit for the first
        of them alone would keep the others waiting for two.
        """
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_GATHER_S):
                while len(self._queue) < self._together:
                    self._log.work.clear()
                    await self._log.work.wait()
        self._together = len(self._queue)

    def _next_appends(self) -> list[Append]:
        taken: list[Append] = []
        rows = size = 0
        while self._queue and rows < _COMMIT_ROWS and isinstance(it := self._queue[0], Append):
            size += size_of(it.rows)
            if taken and size > _COMMIT_BYTES:
                break
            self._queue.popleft()
            taken.append(it)
            rows += it.rows.num_rows
        self._queued_rows -= rows
        return taken

    async def _commit(self, appends: list[Append]) -> None:
        try:
            while waiting := await self._admitted(appends):
                segment, answers = segment_of_appends(self._place(), waiting)
                if await self._store(segment):
                    for append, answer in zip(waiting, answers, strict=True):
                        _tell(append.done, answer)
                    return
        except BaseException as error:
            ended = UnavailableError("the stream was closed meanwhile")
            for append in appends:
                _fail(append.done, error if isinstance(error, Exception) else ended)
            raise

    async def _admitted(self, appends: list[Append]) -> list[Append]:
        """Answer the repeats and the fenced, and return the others.

        Of several with one key the first is returned; the others meet its answer in the next turn.
        """
        await self._hear_of_epoch(max(append.epoch or 0 for append in appends))
        admitted = []
        keys = set()
        for append in appends:
            known = self._log.keys.get(append.key)
            if append.done.done():
                continue
            if known is not None:
                _tell(append.done, known)
            elif append.key is not None and append.key in keys:
                self._queue.appendleft(append)
                self._queued_rows += append.rows.num_rows
            elif (error := self._epoch_error(append.epoch or 0)) is not None:
                _fail(append.done, error)
            else:
                keys.add(append.key)
                admitted.append(append)
        return admitted

    async def _hear_of_epoch(self, epoch: int) -> None:
        """Look for the claim of an epoch that is not known; it may have been made elsewhere."""
        if epoch > self._log.epoch:
            await self._ignite.insist(self._log.catch_up, _COMMIT_S)

    def _epoch_error(self, epoch: int) -> MistbowError | None:
        now = self._log.epoch
        if epoch < now:
            return FencedError(
                f"epoch {epoch} of the stream {self._log.name} is over; it is at epoch {now}",
                hint="Another writer claimed the stream.",
            )
        if epoch > now:
            return ConflictError(f"the stream {self._log.name} has no epoch {epoch} yet")
        return None

    async def _store(self, segment: Segment) -> bool:
        data = encode_segment(segment)
        self._moved = time.monotonic()
        return await self._ignite.insist(lambda: self._log.append(segment, data), _COMMIT_S)

    async def _claim(self) -> State:
        while True:
            place = self._place(epoch=self._log.epoch + 1)
            if await self._store(segment_of_claim(place)):
                return await self._update(place.epoch, place.frontier, {})

    async def _update(self, epoch: int, frontier: int, attributes: dict[str, Any]) -> State:
        def change(state: State) -> State:
            if state.epoch > epoch:
                raise FencedError(f"epoch {epoch} of the stream {self._log.name} is over")
            merged = {**state.attributes, **attributes}
            return State(
                epoch,
                max(state.frontier, frontier, self._log.frontier),
                {name: value for name, value in merged.items() if value is not None},
            )

        self._moved = time.monotonic()
        state = await self._ignite.insist(lambda: self._log.state.update(change), _COMMIT_S)
        self._log.move_frontier(state.frontier)
        return state

    async def _tick(self) -> None:
        idle = time.monotonic() - self._moved
        if self._owned is None or not self._log.asked or idle < TICK_S:
            return
        frontier = self._clock_frontier()
        if frontier > self._log.frontier:
            try:
                await self._update(self._owned, frontier, {})
            except FencedError:
                log.error("another agent has taken the stream over", stream=self._log.name)
                self._owned = None
                await self._log.catch_up()

    async def _release(self) -> None:
        ahead = self._log.ahead
        limit = self._clock() + AHEAD_MS
        while self._owned == self._log.epoch and (due := ahead.due(limit)):
            places = sorted({self._log.index.at(first) for first in due})
            entries = [self._log.index[place] for place in places]
            pieces = await self._log.pieces(entries)
            rows = [piece.waiting(ahead.released, limit) for piece in pieces]
            if any(part.num_rows for part in rows):
                place = replace(self._place(), released=limit)
                if not await self._store(segment_of_released(place, rows)):
                    continue
            for entry, piece in zip(entries, pieces, strict=True):
                # What was merged meanwhile waits under the run's name.
                if self._log.index[self._log.index.at(entry.first)] == entry:
                    ahead.settle(entry.first, piece.ahead)

    def _place(self, epoch: int | None = None) -> Place:
        now = self._clock()
        stream = self._log
        timed = self.lateness_ms is not None
        return Place(
            stream=stream.key,
            schema=stream.schema,
            first=stream.head,
            epoch=stream.epoch if epoch is None else epoch,
            horizon=stream.frontier,
            frontier=max(stream.frontier, self._clock_frontier()) if timed else stream.frontier,
            created=now,
            released=stream.ahead.released,
            limit=max(stream.ahead.released, now + AHEAD_MS) if timed else None,
        )

    def _clock_frontier(self) -> int:
        return self._clock() - (self.lateness_ms or 0)

    def _refuse_queued(self, error: MistbowError) -> None:
        queued, self._queue = self._queue, deque()
        self._queued_rows = 0
        for waiting in queued:
            _fail(waiting.done, error)


def _tell(done: asyncio.Future[Any], value: object) -> None:
    # Who waited may have hung up.
    if not done.done():
        done.set_result(value)


def _fail(done: asyncio.Future[Any], error: Exception) -> None:
    if not done.done():
        done.set_exception(error)
