"""Reading a stream: which of its rows a subscriber wants, chunk by chunk, and following it."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mistbow.errors import ConflictError, InvalidRequestError, NotFoundError
from mistbow.streams.schemas import HORIZON
from mistbow.streams.wire import Chunk, Position
from storage_agent.streams.columns import is_in
from storage_agent.streams.index import Entry, Index
from storage_agent.streams.log import StreamLog
from storage_agent.streams.pieces import Piece
from storage_agent.streams.runs import Commits, Int64s
from storage_agent.streams.segments import no_rows
from storage_agent.streams.streams import Stream
from storage_agent.streams.writer import TICK_S

_CHUNK_SEGMENTS = 32
_CHUNK_ROWS = 50_000
_LOOK_AT = 10_000
"""Most entries of the index that are looked at without giving others a turn."""

_AWAKE_S = 2.0
"""A follower hears something at least so often, even if nothing happens."""


@dataclass(frozen=True, slots=True)
class Selection:
    """The rows and columns that a subscriber asks for; what is empty or None asks for all.

    ``matches``: column → values, any of which will do; times in milliseconds, both inclusive.
    ``late``: only rows that came late, or only those that did not.
    """

    matches: Mapping[str, Sequence[str]] = field(default_factory=dict)
    columns: Sequence[str] = ()
    late: bool | None = None
    min_ts: int | None = None
    max_ts: int | None = None


@dataclass(frozen=True, slots=True)
class Found:
    """Rows that are wanted, the number of each, and the position after all that was looked at."""

    rows: pa.RecordBatch
    numbers: Int64s
    position: Position

    @property
    def chunk(self) -> Chunk:
        """What of it goes to a subscriber."""
        return Chunk(self.rows, self.position)


class Selector:
    """A selection made for one stream; raises ``InvalidRequestError`` if it does not fit it."""

    def __init__(self, stream: Stream, selection: Selection) -> None:
        self._stored = stream.log.schema
        self._timed = stream.timed
        self._selection = selection
        wanted = selection.columns or self._stored.names
        self._columns = [name for name in wanted if not (self._timed and name == HORIZON.name)]
        for name in (*self._columns, *selection.matches, *self._times()):
            if name not in self._stored.names:
                raise InvalidRequestError(
                    f"the stream {stream.name} has no column {name}",
                    hint=f"It has {', '.join(self._stored.names)}.",
                )
        if selection.late is not None and not stream.timed:
            raise InvalidRequestError(f"no row of the stream {stream.name} is ever late")
        self._values = {
            name: _values(self._stored.field(name), texts)
            for name, texts in selection.matches.items()
        }
        fields = [self._stored.field(name) for name in self._columns]
        self.schema = pa.schema([*fields, HORIZON] if self._timed else fields)

    def begin(self, index: Index, start: int) -> int:
        """Return a number from ``start`` before which no row is wanted."""
        least = self._selection.min_ts
        return start if least is None else max(start, index.seek(least - 1))

    def holding(self, index: Index, span: range) -> list[int]:
        """Return the positions in ``span`` of segments that can have rows that are wanted."""
        asked = self._selection
        return index.holding(span, asked.min_ts, asked.max_ts, late=bool(asked.late))

    def choose(self, piece: Piece, start: int, end: int) -> tuple[pa.RecordBatch, Int64s]:
        """Return the wanted rows among those numbered ``start`` to ``end``, and their numbers."""
        rows = piece.between(start, end)
        conditions = self._conditions(rows.batch, rows.horizon)
        if conditions:
            rows = rows.filter(reduce(pc.and_, conditions))
        columns = [rows.batch[name] for name in self._columns]
        if self._timed:
            horizon = rows.horizon
            if isinstance(horizon, int):
                horizon = pa.repeat(pa.scalar(horizon, pa.int64()), rows.batch.num_rows)
            columns.append(horizon)
        return pa.RecordBatch.from_arrays(columns, schema=self.schema), rows.numbers

    def _times(self) -> list[str]:
        asked = self._selection
        return [] if asked.min_ts is None and asked.max_ts is None else ["ts"]

    def _conditions(self, rows: pa.RecordBatch, horizon: Any) -> list[pa.Array]:
        asked = self._selection
        conditions = [is_in(rows[name], values) for name, values in self._values.items()]
        if asked.min_ts is not None:
            conditions.append(pc.greater_equal(rows["ts"], asked.min_ts))
        if asked.max_ts is not None:
            conditions.append(pc.less_equal(rows["ts"], asked.max_ts))
        if asked.late is not None:
            late = pc.less_equal(rows["ts"], horizon)
            conditions.append(late if asked.late else pc.invert(late))
        return conditions


async def read(
    log: StreamLog, selector: Selector, start: int, end: int | None = None
) -> AsyncIterator[Found]:
    """Yield the wanted rows from ``start`` up to ``end`` or the head as it is now.

    The last of them, perhaps without rows, tells the position reached.
    """
    log.ask()
    _check_start(log, start)
    stop = log.head if end is None else max(start, min(end, log.head))
    position = start
    while True:
        entries, reached = _next_entries(log, selector, position, stop)
        if entries and entries[0].blocks:
            async for found in _read_run(log, selector, entries[0], position, stop):
                yield found
                position = found.position.next
        else:
            if not entries:
                await asyncio.sleep(0)  # nothing else here lets others have a turn
            pieces = await log.pieces(entries)
            chosen = [selector.choose(piece, position, stop) for piece in pieces]
            position = reached
            rows, numbers = _joined(chosen, selector.schema)
            yield Found(rows, numbers, await _position(log, position))
        if position >= stop:
            return


async def _read_run(
    log: StreamLog, selector: Selector, entry: Entry, start: int, stop: int
) -> AsyncIterator[Found]:
    """Yield the wanted rows of a run, some whole commits at a time."""
    [piece] = await log.pieces([entry])
    stop = min(entry.next, stop)
    rows, numbers = await asyncio.to_thread(selector.choose, piece, start, stop)
    begin = 0
    while rows.num_rows - begin > _CHUNK_ROWS:
        commit = piece.commits.at(int(numbers[begin + _CHUNK_ROWS - 1]))
        position = Position(int(piece.commits.next[commit]), int(piece.commits.frontier[commit]))
        end = int(np.searchsorted(numbers, position.next))
        if end == rows.num_rows:
            break
        yield Found(rows.slice(begin, end - begin), numbers[begin:end], position)
        begin = end
    yield Found(rows.slice(begin), numbers[begin:], await _position(log, stop))


async def follow(
    log: StreamLog, selector: Selector, start: int, end: int | None = None
) -> AsyncIterator[Found]:
    """Do as ``read``, and go on at the head, with a heartbeat whenever the frontier moves."""
    position = Position(start, -1)
    beat = 0.0
    while True:
        changed = log.ask()
        if log.deleted:
            raise NotFoundError(f"the stream {log.name} is deleted")
        async for found in read(log, selector, position.next, end):
            idle = time.monotonic() - beat
            moved = found.position != position and idle >= TICK_S
            if found.rows.num_rows or moved or idle >= _AWAKE_S:
                position, beat = found.position, time.monotonic()
                yield found
        if end is not None and position.next >= end:
            return
        behind = position != await _position(log, position.next) or position.next < log.head
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(TICK_S if behind else _AWAKE_S):
                await changed.wait()


async def furthest(
    log: StreamLog,
    start: int,
    max_rows: int,
    after_frontier: int | None = None,
    wait_s: float = 0.0,
) -> Position:
    """Return the furthest end of a segment with at most so many rows from ``start``, at least one.

    Waits up to ``wait_s`` for a row, or for the frontier to be greater than ``after_frontier``.
    """
    _check_start(log, start)
    deadline = time.monotonic() + wait_s
    changed = log.ask()
    while log.head <= start and (after_frontier is None or log.frontier <= after_frontier):
        left = deadline - time.monotonic()
        if left <= 0:
            break
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(left):
                await changed.wait()
        changed = log.ask()
    end = start
    rows = 0
    for entry in log.index.from_number(start):
        if entry.blocks and rows + entry.rows > max_rows:
            commits = await log.commits(entry)
            reached = _furthest_commit(commits, max(start, end), max_rows - rows, end > start)
            if reached < entry.next:
                end = reached
                break
        rows += entry.rows - max(0, start - entry.first)
        if rows > max_rows and end > start:
            break
        end = entry.next
    return await _position(log, end)


def _furthest_commit(commits: Commits, start: int, most: int, may_stay: bool) -> int:
    """Return the furthest end of a commit with at most so many rows from ``start``."""
    first = commits.at(start)
    before = max(0, start - int(commits.first[first]))
    fits = int(np.searchsorted(np.cumsum(commits.rows[first:]) - before, most, side="right"))
    if fits == 0:
        return start if may_stay else int(commits.next[first])
    return int(commits.next[first + fits - 1])


def _next_entries(
    log: StreamLog, selector: Selector, start: int, stop: int
) -> tuple[list[Entry], int]:
    """Return the segments to read for the next chunk, and the number that it reaches."""
    index = log.index
    span = index.span(selector.begin(index, start), stop)[:_LOOK_AT]
    entries: list[Entry] = []
    rows = 0
    for position in selector.holding(index, span):
        entry = index[position]
        full = len(entries) >= _CHUNK_SEGMENTS or rows >= _CHUNK_ROWS
        if full or (entries and entry.blocks) or (entries and entries[0].blocks):
            return entries, entries[-1].next
        entries.append(entry)
        rows += entries[-1].rows
    return entries, min(index[span[-1]].next, stop) if span else stop


def _check_start(log: StreamLog, start: int) -> None:
    if start > log.head:
        raise ConflictError(
            f"the stream {log.name} ends at {log.head}, before {start}",
            hint="Was it read from another agent, or has data been lost?",
        )


async def _position(log: StreamLog, number: int) -> Position:
    return Position(number, await log.frontier_at(number))


def _joined(
    chosen: Sequence[tuple[pa.RecordBatch, Int64s]], schema: pa.Schema
) -> tuple[pa.RecordBatch, Int64s]:
    filled = [(rows, numbers) for rows, numbers in chosen if rows.num_rows]
    if not filled:
        return no_rows(schema), np.empty(0, np.int64)
    if len(filled) == 1:
        return filled[0]
    rows = pa.concat_batches([rows for rows, _ in filled])
    return rows, np.concatenate([numbers for _, numbers in filled])


def _values(column: pa.Field, texts: Sequence[str]) -> pa.Array:
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    try:
        return pa.array(texts, pa.string()).cast(kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise InvalidRequestError(f"{column.name} is {kind}: {error}") from error
