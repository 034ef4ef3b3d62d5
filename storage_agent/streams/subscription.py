"""Subscriptions: reads the selected rows of a stream in chunks, and waits for new rows."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial, reduce
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mistbow.errors import ConflictError, InvalidRequestError, NotFoundError
from mistbow.runtime.slices import take_turn
from mistbow.streams.schemas import ROW_FRONTIER
from mistbow.streams.wire import Chunk, Position
from storage_agent.streams.columns import is_in, without_unused_words
from storage_agent.streams.extents import Extent
from storage_agent.streams.index import Index, IndexEntry
from storage_agent.streams.log import LogPhase, StreamLog
from storage_agent.streams.pace import Pace
from storage_agent.streams.runs import Int64s, SegmentTable
from storage_agent.streams.segments import empty_batch
from storage_agent.streams.streams import Stream
from storage_agent.work_threads import in_thread_if_many

_CHUNK_SEGMENTS = 32
_CHUNK_ROWS = 50_000
MAX_CHUNK_BYTES = 4 * 2**20
"""The size of a chunk (bytes), which only a chunk of one segment exceeds.

A follower stores each chunk as one segment, and Ignite accepts values of up to 7 MiB.
"""

_SCAN_ENTRIES = 10_000
"""The number of index entries that are scanned before other tasks may run."""


@dataclass(frozen=True, slots=True)
class RowSelection:
    """The rows and columns that a subscription selects.

    A field that is empty or None does not restrict the selection. ``matches``: name of a column ->
    the values to select. ``columns``: the names of the columns to return. ``min_ts``, ``max_ts``:
    ms, inclusive. ``late``: True selects only late rows, False selects only rows that are not late.
    """

    matches: Mapping[str, Sequence[str]] = field(default_factory=dict)
    columns: Sequence[str] = ()
    late: bool | None = None
    min_ts: int | None = None
    max_ts: int | None = None


@dataclass(frozen=True, slots=True)
class SelectedRows:
    """The selected rows in a part of a stream, and the position of each row.

    ``position``: the end of the part (exclusive), and the frontier there.
    """

    rows: pa.RecordBatch
    positions: Int64s
    position: Position

    @property
    def chunk(self) -> Chunk:
        """The chunk that a subscriber receives for the selected rows."""
        return Chunk(self.rows, self.position)


class RowSelector:
    """Applies a selection to the rows of one stream.

    The constructor raises ``InvalidRequestError`` if the stream lacks a selected column, or if the
    selection has ``late`` and the stream cannot have late rows.
    """

    def __init__(self, stream: Stream, selection: RowSelection) -> None:
        self._stored = stream.log.schema
        self._timed = stream.timed
        self._selection = selection
        # A set, made once: a stream may have thousands of columns.
        stored = frozenset(self._stored.names)
        columns = selection.columns or self._stored.names
        self._columns = [
            name for name in columns if not (self._timed and name == ROW_FRONTIER.name)
        ]
        for name in (*self._columns, *selection.matches, *self._times()):
            if name not in stored:
                raise InvalidRequestError(
                    f"the stream {stream.name} has no column {name}",
                    hint=f"Its columns are {', '.join(self._stored.names)}.",
                )
        if selection.late is not None and not stream.timed:
            raise InvalidRequestError(
                f"late: only the stream raw can have late rows, not {stream.name}"
            )
        self._values = {
            name: _values(self._stored.field(name), texts)
            for name, texts in selection.matches.items()
        }
        fields = [self._stored.field(name) for name in self._columns]
        self.schema = pa.schema([*fields, ROW_FRONTIER] if self._timed else fields)

    def begin(self, index: Index, start: int) -> int:
        """Return the position at which a read from ``start`` on may begin.

        No row between ``start`` and the returned position is selected.
        """
        min_ts = self._selection.min_ts
        return start if min_ts is None else max(start, index.seek(min_ts - 1))

    def matching(self, index: Index, span: range) -> list[int]:
        """Return the numbers of the index entries in ``span`` that may have selected rows."""
        selection = self._selection
        return index.matching(span, selection.min_ts, selection.max_ts, late=bool(selection.late))

    def select(self, extent: Extent, start: int, end: int) -> tuple[pa.RecordBatch, Int64s]:
        """Return the selected rows at positions from ``start`` to ``end`` (exclusive).

        Returns (rows, positions of the rows).
        """
        rows = extent.select(start, end)
        conditions = self._conditions(rows.batch, rows.frontier_before)
        if conditions:
            rows = rows.filter(reduce(pc.and_, conditions))
        columns = [rows.batch[name] for name in self._columns]
        if self._timed:
            frontier_before = rows.frontier_before
            if isinstance(frontier_before, int):
                stored = pa.scalar(frontier_before, pa.int64())
                frontier_before = pa.repeat(stored, rows.batch.num_rows)
            columns.append(frontier_before)
        return pa.RecordBatch.from_arrays(columns, schema=self.schema), rows.positions

    def _times(self) -> list[str]:
        selection = self._selection
        return [] if selection.min_ts is None and selection.max_ts is None else ["ts"]

    def _conditions(self, rows: pa.RecordBatch, frontier_before: Any) -> list[pa.Array]:
        selection = self._selection
        conditions = [is_in(rows[name], values) for name, values in self._values.items()]
        if selection.min_ts is not None:
            conditions.append(pc.greater_equal(rows["ts"], selection.min_ts))
        if selection.max_ts is not None:
            conditions.append(pc.less_equal(rows["ts"], selection.max_ts))
        if selection.late is not None:
            late = pc.less_equal(rows["ts"], frontier_before)
            conditions.append(late if selection.late else pc.invert(late))
        return conditions


async def read(
    log: StreamLog, selector: RowSelector, start: int, end: int | None = None
) -> AsyncIterator[SelectedRows]:
    """Yield the selected rows at positions from ``start`` to ``end`` (exclusive).

    ``end`` None: read up to the present head. The last item has the position at which the read
    ended, and may have no rows. Raises ``ConflictError`` if ``start`` is after the head.
    """
    log.watch()
    _check_start(log, start)
    stop = log.head if end is None else max(start, min(end, log.head))
    position = start
    while True:
        entries, reached = _next_entries(log, selector, position, stop)
        if entries and entries[0].blocks:
            async for rows in _read_run(log, selector, entries[0], position, stop):
                yield rows
                position = rows.position.next
        else:
            segments = await log.segments(entries)
            await take_turn()
            visibility = log.visibility(None)
            extents = [Extent.of([each], visibility) for each in segments]
            may_delete = visibility.tombstones.may_delete_from(
                entries[0].first if entries else stop
            )
            stored = sum(each.rows for each in entries) if may_delete else 0
            select = partial(_select, selector, extents, position, stop)
            selected = await in_thread_if_many(stored, select)
            position = reached
            batch, positions = _concat(selected, selector.schema)
            yield SelectedRows(batch, positions, await _position(log, position))
        if position >= stop:
            return


async def _read_run(
    log: StreamLog, selector: RowSelector, entry: IndexEntry, start: int, stop: int
) -> AsyncIterator[SelectedRows]:
    """Yield the selected rows of a run in chunks; each chunk ends where a segment ends."""
    [extent] = await log.extents([entry])
    stop = min(entry.next, stop)
    rows, positions = await asyncio.to_thread(selector.select, extent, start, stop)
    limit = _CHUNK_ROWS
    while _is_too_large(rows):
        chunk = await asyncio.to_thread(_first_chunk, rows, positions, extent.segments, limit)
        count, limit = chunk.num_rows, min(_CHUNK_ROWS, _rows_of_chunk(chunk))
        if count == rows.num_rows:
            rows = chunk
            break
        segment = extent.segments.find(int(positions[count - 1]))
        position = Position(
            int(extent.segments.next[segment]), int(extent.segments.frontier[segment])
        )
        await take_turn()
        yield SelectedRows(chunk, positions[:count], position)
        rows, positions = rows.slice(count), positions[count:]
    await take_turn()
    yield SelectedRows(rows, positions, await _position(log, stop))


def _is_too_large(rows: pa.RecordBatch) -> bool:
    # Without rows, only dictionaries are large, and no one stores them.
    return bool(rows.num_rows and (rows.num_rows > _CHUNK_ROWS or rows.nbytes > MAX_CHUNK_BYTES))


def _first_chunk(
    rows: pa.RecordBatch, positions: Int64s, table: SegmentTable, limit: int
) -> pa.RecordBatch:
    """Return the first rows of a run, up to the end of a segment, for the next chunk.

    ``table``: the segments of the run. ``limit``: the maximum number of rows of several segments.
    """
    first = table.find(int(positions[0]))
    while True:
        chunk, last = rows, table.find(int(positions[-1]))
        if limit < len(positions):
            last = max(first, table.find(int(positions[limit])) - 1)
            chunk = rows.slice(0, int(np.searchsorted(positions, table.next[last])))
        if chunk.nbytes > MAX_CHUNK_BYTES // 2:
            # A slice retains the dictionaries of the whole run. Below this size they may remain:
            # the next chunk can have twice as many rows.
            chunk = without_unused_words(chunk)
        if chunk.nbytes <= MAX_CHUNK_BYTES or first == last:
            return chunk
        limit = _rows_of_chunk(chunk)


def _rows_of_chunk(rows: pa.RecordBatch) -> int:
    """Return how many rows of this size a chunk may have."""
    return int(rows.num_rows * MAX_CHUNK_BYTES // max(1, rows.nbytes))


async def follow(
    log: StreamLog, selector: RowSelector, start: int, end: int | None = None
) -> AsyncIterator[SelectedRows]:
    """Yield the selected rows from the position ``start`` on, and then each new selected row.

    Yields items without rows when the frontier moves, and regularly while nothing changes. ``end``:
    the position at which the iteration ends; None: the iteration never ends. Raises
    ``NotFoundError`` if the stream is deleted.
    """
    pace = Pace(start, end)
    while True:
        changed = log.watch()
        if log.phase is LogPhase.REMOVED:
            raise NotFoundError(f"the stream {log.name} was deleted")
        async for selected in read(log, selector, pace.sent.next, end):
            if pace.sends(selected.rows.num_rows, selected.position):
                yield selected
        if pace.is_ended:
            return
        await pace.wait(changed, Position(log.head, log.frontier))


async def find_end(
    log: StreamLog,
    start: int,
    max_rows: int,
    after_frontier: int | None = None,
    wait_s: float = 0.0,
    max_bytes: int | None = None,
) -> Position:
    """Return the position at which a read of at most ``max_rows`` rows from ``start`` ends.

    The read ends where a segment ends. If ``start`` is before the head, the read contains at least
    one segment, even if the segment has more than ``max_rows`` rows. ``max_bytes``: the maximum
    size in Ignite of several segments and runs; None: no maximum. Waits up to ``wait_s`` for a
    row, or for a frontier greater than ``after_frontier`` (None: waits for a row only).
    """
    _check_start(log, start)
    deadline = time.monotonic() + wait_s
    changed = log.watch()
    while log.head <= start and (after_frontier is None or log.frontier <= after_frontier):
        left = deadline - time.monotonic()
        if left <= 0:
            break
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(left):
                await changed.wait()
        changed = log.watch()
    end = start
    left = max_rows
    size = 0
    for entry in log.index.entries_from(start):
        size += entry.bytes
        if max_bytes is not None and size > max_bytes and end > start:
            break
        # At most: the entry has fewer rows than positions where rows were deleted.
        rows = min(entry.rows, entry.next - end)
        if rows > left and entry.blocks:
            reached = _end_in_run(
                await log.segment_table(entry), end, left, at_least_one=end == start
            )
            if reached < entry.next:
                end = reached
                break
        elif rows > left and end > start:
            break
        left -= rows
        end = entry.next
    return await _position(log, end)


def _end_in_run(table: SegmentTable, start: int, max_rows: int, *, at_least_one: bool) -> int:
    """Return the position in a run where a read of at most ``max_rows`` rows from ``start`` ends.

    The read ends where a segment ends. ``table``: the segments of the run. ``at_least_one``: if the
    first segment has too many rows, return the end of the segment, and not ``start``.
    """
    first = table.find(start)
    rows = table.rows[first:].copy()
    rows[0] = min(rows[0], table.next[first] - start)
    count = int(np.searchsorted(np.cumsum(rows), max_rows, side="right"))
    count = max(count, int(at_least_one))
    return int(table.next[first + count - 1]) if count else start


def _next_entries(
    log: StreamLog, selector: RowSelector, start: int, stop: int
) -> tuple[list[IndexEntry], int]:
    """Return the index entries to read for the next chunk, and the chunk's end position."""
    index = log.index
    span = index.span(selector.begin(index, start), stop)[:_SCAN_ENTRIES]
    entries: list[IndexEntry] = []
    rows = size = 0
    for number in selector.matching(index, span):
        entry = index[number]
        size += entry.bytes
        full = len(entries) >= _CHUNK_SEGMENTS or rows >= _CHUNK_ROWS or size > MAX_CHUNK_BYTES
        if entries and (full or entry.blocks or entries[0].blocks):
            return entries, entries[-1].next
        entries.append(entry)
        rows += entry.rows
    return entries, min(index[span[-1]].next, stop) if span else stop


def _check_start(log: StreamLog, start: int) -> None:
    if start > log.head:
        raise ConflictError(
            f"the stream {log.name} ends at {log.head}, before the requested position {start}",
            hint="Either the position belongs to another agent's stream, or rows are lost.",
        )


async def _position(log: StreamLog, number: int) -> Position:
    return Position(number, await log.frontier_at(number))


def _select(
    selector: RowSelector, extents: Sequence[Extent], start: int, end: int
) -> list[tuple[pa.RecordBatch, Int64s]]:
    return [selector.select(extent, start, end) for extent in extents]


def _concat(
    selected: Sequence[tuple[pa.RecordBatch, Int64s]], schema: pa.Schema
) -> tuple[pa.RecordBatch, Int64s]:
    filled = [(rows, positions) for rows, positions in selected if rows.num_rows]
    if not filled:
        return empty_batch(schema), np.empty(0, np.int64)
    if len(filled) == 1:
        return filled[0]
    rows = pa.concat_batches([rows for rows, _ in filled])
    return rows, np.concatenate([positions for _, positions in filled])


def _values(column: pa.Field, texts: Sequence[str]) -> pa.Array:
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    try:
        return pa.array(texts, pa.string()).cast(kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise InvalidRequestError(
            f"match: a value for the column {column.name} is not of its type {kind}: {error}"
        ) from error
