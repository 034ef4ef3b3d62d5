"""The writer of one stream: a single task makes all changes to the stream, one at a time."""

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from mistbow.clock import MAX_AHEAD_MS, Clock
from mistbow.errors import (
    FencedError,
    LostDataError,
    MistbowError,
    TooLargeError,
    UnavailableError,
)
from mistbow.runtime.tasks import cancel_and_wait
from mistbow.telemetry import get_logger
from storage_agent.ignite.client import IgniteClient
from storage_agent.request_key import RequestKey
from storage_agent.streams.columns import Columns
from storage_agent.streams.group_commit import (
    Command,
    PendingAppend,
    SegmentContext,
    answer_known,
    build_claim,
    build_release,
    build_segment,
    epoch_error,
    reject,
    resolve,
    take_appends,
)
from storage_agent.streams.log import StreamLog
from storage_agent.streams.manifest import KeySet, Manifest, Tombstone, tombstones_of
from storage_agent.streams.policy import storage_full
from storage_agent.streams.segments import AppendResult, Segment, encode_after_pause
from storage_agent.streams.state import LEASE_PREFIX, State, check_size

log = get_logger(__name__)

TICK_S = 0.25
"""The minimum time (s) between two moves of the frontier of an idle stream."""

_COMMIT_S = 5.0
"""The time (s) for which a write to Ignite is repeated while Ignite is unavailable."""

_GROUP_S = 0.002
"""The maximum time (s) for which an append waits for others, to be stored with them."""

_QUEUED_ROWS = 400_000
"""The number of waiting rows above which appends are rejected."""


class Writer:
    """Appends to a stream, claims the stream, and moves the stream's frontier.

    ``lateness_ms``: the frontier follows the clock with this delay, and points ahead of the clock
    are stored as future points; None: only ``append`` and ``advance`` move the frontier. ``check``:
    raises an error while writes to the stream are forbidden.
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
        self._timed_epoch: int | None = None
        self._queue: deque[PendingAppend | Command] = deque()
        self._queued_rows = 0
        self._group_size = 1
        self._moved_at = 0.0
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start the task that makes the changes; call this after ``StreamLog.recover``."""
        self._task = asyncio.create_task(self._write(), name=f"writer of {self._log.name}")

    async def close(self) -> None:
        """Stop the writer; queued changes and later requests for changes are rejected."""
        self._closed = True
        if self._task is not None:
            await cancel_and_wait([self._task])
        self._reject_queued(UnavailableError("the agent is stopping"))

    async def append(
        self,
        rows: pa.RecordBatch | Columns,
        *,
        epoch: int | None = None,
        key: RequestKey | None = None,
        series: Sequence[dict[str, Any]] = (),
        frontier: int = 0,
    ) -> AppendResult:
        """Store rows and ``frontier`` atomically, and return the positions of the rows.

        ``epoch``: the epoch with which the caller has claimed the stream; None: the stream was
        never claimed. ``key``: the idempotency key; an append with a repeated key changes nothing,
        and returns the result of the first append. ``series``: metadata of series that are new or
        changed. ``frontier``: the new frontier of the stream, if greater. Raises ``FencedError``
        for an older epoch, ``ReusedKeyError`` for the key of another body, ``StorageFullError``
        while the streams exceed the storage limit, and ``UnavailableError`` while Ignite is
        unavailable. After an ``UnavailableError``, the rows may have been stored nevertheless.
        """
        self._check_open()
        self.check_capacity()
        self._log.manifest.check_capacity()
        if self._queued_rows > _QUEUED_ROWS:
            raise UnavailableError(
                f"more than {_QUEUED_ROWS} rows of {self._log.name} wait to be stored",
                hint="Send more slowly.",
            )
        done: asyncio.Future[AppendResult] = asyncio.get_running_loop().create_future()
        self._queued_rows += rows.num_rows
        self._queue.append(PendingAppend(rows, epoch, key, done, series, frontier))
        self._log.activity.work.set()
        return await done

    def check_capacity(self) -> None:
        """Raise ``StorageFullError`` while the streams exceed the storage limit."""
        if self._log.policy.is_full():
            raise storage_full()

    async def claim(self) -> State:
        """Begin a new epoch, which fences older epochs; return the stream's new state."""
        return await self._enqueue(self._claim)

    async def claim_timed(self) -> int:
        """Claim the stream; from then on, this agent's clock moves the frontier. Return the new
        epoch.
        """
        self._timed_epoch = (await self.claim()).epoch
        self._log.activity.work.set()
        return self._timed_epoch

    async def advance(
        self,
        epoch: int | None,
        frontier: int | None = None,
        attributes: dict[str, Any] | None = None,
    ) -> State:
        """Move the frontier forward, set attributes, and return the stream's new state.

        ``frontier``: None: the frontier does not move. ``attributes``: name -> value; the value
        None removes the attribute. Raises ``FencedError`` for an older epoch.
        """

        async def move() -> State:
            await self._follow_epoch(epoch or 0)
            if (error := self._epoch_error(epoch or 0)) is not None:
                raise error
            return await self._update(epoch or 0, frontier or 0, attributes or {})

        return await self._enqueue(move)

    async def retain(self, holder: str, retain_ms: int, for_ms: int) -> State:
        """Store a retention lease for ``holder``, and return the stream's new state.

        Rows are retained for at least ``retain_ms``. The lease expires after ``for_ms``, and
        replaces any earlier lease of the same holder. Expired leases are removed.
        """

        async def store_lease() -> State:
            now = self._clock()
            expired = {name: None for name in self._log.attributes if name.startswith(LEASE_PREFIX)}
            leases = self._log.retention_leases(now) | {holder: (retain_ms, now + for_ms)}
            stored = {LEASE_PREFIX + name: list(lease) for name, lease in leases.items()}
            return await self._update(self._log.epoch, 0, {**expired, **stored})

        return await self._enqueue(store_lease)

    async def delete(
        self,
        columns: Sequence[str] = (),
        keys: Collection[Sequence[str]] = (),
        min_ts: int | None = None,
        max_ts: int | None = None,
        *,
        before: int | None = None,
        local: bool = False,
    ) -> State:
        """Store a tombstone that deletes the rows with certain keys and times before a position.

        ``keys``: the keys to delete, as values of ``columns``; empty: all keys. ``min_ts``,
        ``max_ts``: ms, inclusive; None if unbounded. ``before``: the position (exclusive); None:
        the head. ``local``: replicas retain the deleted rows. Once this call returns, no reader
        receives the deleted rows. Raises ``ConflictError`` if the position is inside a run.
        """
        key_set = (tuple(columns), [tuple(key) for key in keys])
        return await self._enqueue(
            lambda: self._store_tombstones([key_set], min_ts, max_ts, before, local=local)
        )

    async def delete_keys(
        self,
        key_sets: Callable[[], Awaitable[Sequence[KeySet]]],
        min_ts: int | None = None,
        max_ts: int | None = None,
    ) -> State:
        """Delete the rows that have certain keys and times.

        ``key_sets``: returns the keys to delete; the writer appends no rows between this call and
        the deletion. ``min_ts``, ``max_ts``: ms, inclusive; None if unbounded.
        """

        async def store() -> State:
            return await self._store_tombstones(await key_sets(), min_ts, max_ts)

        return await self._enqueue(store)

    async def _enqueue(self, run: Callable[[], Awaitable[State]]) -> State:
        self._check_open()
        command = Command(run, asyncio.get_running_loop().create_future())
        self._queue.append(command)
        self._log.activity.work.set()
        return await command.done

    def _check_open(self) -> None:
        if self._closed:
            raise UnavailableError(f"the stream {self._log.name} is closing", hint="Try again.")
        self._check()

    # The rest runs in the writer's task only.

    async def _write(self) -> None:
        while True:
            await self._wait_for_work()
            try:
                await self._do_next()
            except UnavailableError as error:
                self._reject_queued(error)
            except Exception as error:
                log.error("segment_write_failed", stream=self._log.name, exc_info=error)
                # The changes in the queue may depend on the one that failed.
                self._reject_queued(UnavailableError(f"a write to {self._log.name} has failed"))
            try:
                await self._idle()
            except LostDataError:
                pass  # the loss guard has logged it
            except MistbowError as error:
                log.warning("frontier_move_failed", stream=self._log.name, error=error.message)
            except Exception as error:
                log.error("frontier_move_failed", stream=self._log.name, exc_info=error)

    async def _idle(self) -> None:
        if not self._ignite.connected:
            return
        self._check()
        await self._release_due_points()
        if not self._queue:
            await self._move_idle_frontier()

    async def _wait_for_work(self) -> None:
        if self._queue:
            return
        awaited = self._log.activity.is_watched or bool(self._log.future_points)
        timed = self._log.is_uncertain or (awaited and self._timed_epoch is not None)
        self._log.activity.work.clear()
        # Not wait_for: in Python 3.11, it may lose the cancellation that ends this task.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(TICK_S if timed else None):
                await self._log.activity.work.wait()

    async def _do_next(self) -> None:
        if self._queue or (self._log.is_uncertain and self._ignite.connected):
            self._check()
            await self._settle()
        if not self._queue:
            return
        if isinstance(command := self._queue[0], Command):
            self._queue.popleft()
            await self._execute(command)
        else:
            await self._wait_for_group()
            await self._commit(self._next_appends())

    async def _settle(self) -> None:
        """Make certain which of the changes that Ignite did not answer are stored.

        No other change may be made before: the answer to a claim, append or deletion depends on the
        head, the frontier and the epoch.
        """
        if self._log.is_head_uncertain:
            await self._store(build_claim(self._context()))
        if self._log.is_uncertain:
            await self._ignite.retry(self._log.settle, _COMMIT_S)

    async def _execute(self, command: Command) -> None:
        try:
            resolve(command.done, await command.run())
        except asyncio.CancelledError:
            reject(
                command.done,
                UnavailableError("the stream was closed before the change was acknowledged"),
            )
            raise
        except Exception as error:
            reject(command.done, error)
            if isinstance(error, UnavailableError) or not isinstance(error, MistbowError):
                raise

    async def _wait_for_group(self) -> None:
        """Wait, at most 2 ms, until the number of waiting appends reaches that of the last segment.

        Clients that received their responses together send their next appends at about the same
        time. If the first of these appends were stored alone, the other appends would wait for two
        commits.
        """
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_GROUP_S):
                while len(self._queue) < self._group_size:
                    self._log.activity.work.clear()
                    await self._log.activity.work.wait()
        self._group_size = len(self._queue)

    def _next_appends(self) -> list[PendingAppend]:
        taken = take_appends(self._queue)
        self._queued_rows -= sum(append.rows.num_rows for append in taken)
        return taken

    async def _commit(self, appends: list[PendingAppend]) -> None:
        try:
            while admitted := await self._admit(appends):
                segment, results = build_segment(self._context(), admitted)
                try:
                    is_stored = await self._store(segment)
                except TooLargeError:
                    if len(admitted) == 1:
                        raise
                    await self._commit_halves(admitted)
                    return
                if is_stored:
                    for append, result in zip(admitted, results, strict=True):
                        resolve(append.done, result)
                    return
        except BaseException as error:
            closed = UnavailableError("the stream was closed before the change was acknowledged")
            for append in appends:
                reject(append.done, error if isinstance(error, Exception) else closed)
            raise

    async def _commit_halves(self, appends: list[PendingAppend]) -> None:
        """Store the appends of a segment that is too large in two segments, in the same order."""
        middle = len(appends) // 2
        for half in (appends[:middle], appends[middle:]):
            # An append that is too large by itself is rejected; the others are stored.
            with contextlib.suppress(TooLargeError):
                await self._commit(half)

    async def _admit(self, appends: list[PendingAppend]) -> list[PendingAppend]:
        """Return the ``appends`` that must be stored; answer repeated and fenced appends.

        A repeated append receives the result of the first append, and a fenced append is rejected.
        Of several appends with the same key, only the first append is returned. The other appends
        go back to the queue, and are answered after the first append.
        """
        await self._follow_epoch(max(append.epoch or 0 for append in appends))
        admitted = []
        keys = set()
        for append in appends:
            if append.done.done() or answer_known(append, self._log.keys):
                continue
            if append.key is not None and append.key.text in keys:
                self._queue.appendleft(append)
                self._queued_rows += append.rows.num_rows
            elif (error := self._epoch_error(append.epoch or 0)) is not None:
                reject(append.done, error)
            else:
                keys.add(None if append.key is None else append.key.text)
                admitted.append(append)
        return admitted

    async def _store_tombstones(
        self,
        key_sets: Sequence[KeySet],
        min_ts: int | None,
        max_ts: int | None,
        before: int | None = None,
        *,
        local: bool = False,
    ) -> State:
        cell = self._log.manifest
        position = self._log.head if before is None else before
        template = Tombstone(
            id=0, before=position, created=self._clock(), min_ts=min_ts, max_ts=max_ts, local=local
        )
        tombstones = tombstones_of(key_sets, template)
        cell.check_capacity(tombstones)

        def change(manifest: Manifest) -> Manifest:
            if before is not None:
                manifest.check_border(before)
            return manifest.with_tombstones(tombstones)

        await self._ignite.retry(lambda: cell.update(change), _COMMIT_S)
        self._log.keys.forget_bodies(cell.current.deleted_before)
        return self._log.state.current

    async def _follow_epoch(self, epoch: int) -> None:
        """Add the segments of other agents to the log if ``epoch`` exceeds the log's epoch."""
        if epoch > self._log.epoch:
            await self._ignite.retry(self._log.catch_up, _COMMIT_S)

    def _epoch_error(self, epoch: int) -> MistbowError | None:
        return epoch_error(self._log.name, epoch, self._log.epoch)

    async def _store(self, segment: Segment) -> bool:
        data = await encode_after_pause(segment)
        self._moved_at = time.monotonic()
        return await self._ignite.retry(lambda: self._log.append(segment, data), _COMMIT_S)

    async def _claim(self) -> State:
        while True:
            context = self._context(epoch=self._log.epoch + 1)
            if await self._store(build_claim(context)):
                return await self._update(context.epoch, context.frontier, {})

    async def _update(self, epoch: int, frontier: int, attributes: dict[str, Any]) -> State:
        def change(state: State) -> State:
            if state.epoch > epoch:
                raise FencedError(f"the epoch {epoch} of the stream {self._log.name} is fenced")
            merged = {**state.attributes, **attributes}
            kept = {name: value for name, value in merged.items() if value is not None}
            if attributes:
                check_size(self._log.name, state.attributes, kept)
            return State(epoch, max(state.frontier, frontier, self._log.frontier), kept)

        self._moved_at = time.monotonic()
        state = await self._ignite.retry(lambda: self._log.state.update(change), _COMMIT_S)
        self._log.move_frontier(state.frontier)
        return state

    async def _move_idle_frontier(self) -> None:
        idle = time.monotonic() - self._moved_at
        if self._timed_epoch is None or not self._log.activity.is_watched or idle < TICK_S:
            return
        if (frontier := self._clock_frontier()) > self._log.frontier:
            try:
                await self._update(self._timed_epoch, frontier, {})
            except FencedError:
                log.error("stream_claimed_by_other", stream=self._log.name)
                self._timed_epoch = None
                await self._log.catch_up()

    async def _release_due_points(self) -> None:
        future_points = self._log.future_points
        limit = self._clock() + MAX_AHEAD_MS
        while self._timed_epoch == self._log.epoch and (due := future_points.due_segments(limit)):
            numbers = sorted({self._log.index.find(first) for first in due})
            entries = [self._log.index[number] for number in numbers]
            extents = await self._log.extents(entries)
            rows = [each.pending_points(future_points.released, limit) for each in extents]
            if any(part.num_rows for part in rows):
                context = replace(self._context(), released=limit)
                if not await self._store(build_release(context, rows)):
                    continue
            for entry, each in zip(entries, extents, strict=True):
                # The points of a segment that was merged meanwhile belong to its run.
                if self._log.index[self._log.index.find(entry.first)] == entry:
                    future_points.refresh(entry.first, each.pending_points(future_points.released))

    def _context(self, epoch: int | None = None) -> SegmentContext:
        now = self._clock()
        stream = self._log
        timed = self.lateness_ms is not None
        return SegmentContext(
            stream=stream.key,
            schema=stream.schema,
            first=stream.head,
            epoch=stream.epoch if epoch is None else epoch,
            frontier_before=stream.frontier,
            frontier=max(stream.frontier, self._clock_frontier()) if timed else stream.frontier,
            created=now,
            released=stream.future_points.released,
            limit=max(stream.future_points.released, now + MAX_AHEAD_MS) if timed else None,
        )

    def _clock_frontier(self) -> int:
        return self._clock() - (self.lateness_ms or 0)

    def _reject_queued(self, error: MistbowError) -> None:
        queued, self._queue = self._queue, deque()
        self._queued_rows = 0
        for change in queued:
            reject(change.done, error)
