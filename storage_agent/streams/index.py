"""The index of a stream, in memory, with a few integers for each segment and each run."""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields
from typing import Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from storage_agent.streams.runs import Run
from storage_agent.streams.segments import Segment

EARLIEST = -(2**63)
LATEST = 2**63 - 1
_FEW_ROWS = 32


@dataclass(frozen=True, slots=True)
class IndexEntry:
    """The index entry of a segment or of a run. Times are milliseconds.

    ``first``: the first position. ``count``: the number of positions. ``late``: the number of late
    rows. ``min_ts``, ``max_ts``: the time range of the rows; ``min_ts`` is greater than ``max_ts``
    if no row has a time. ``frontier``: the frontier of the stream after the segment or run.
    ``future_min_ts``, ``future_max_ts``: the time range of the future points. ``oldest``,
    ``created``: the times at which the first and the last segment of the entry were created.
    ``segments``: the number of segments. ``blocks``: the number of blocks of a run; 0: the entry is
    a segment. ``bytes``: the size in Ignite.
    """

    first: int
    count: int
    rows: int
    late: int
    min_ts: int
    max_ts: int
    frontier: int
    created: int
    future_min_ts: int
    future_max_ts: int
    oldest: int = 0
    segments: int = 1
    blocks: int = 0
    bytes: int = 0

    @property
    def next(self) -> int:
        """The position after the segment or run."""
        return self.first + self.count

    @classmethod
    def of_run(cls, run: Run) -> Self:
        """Return the entry of a run."""
        return cls(*(getattr(run, name) for name in _COLUMNS))

    @classmethod
    def of_segment(cls, segment: Segment, size: int = 0) -> Self:
        """Return the entry of a segment that takes ``size`` bytes in Ignite."""
        header = segment.header
        min_ts, max_ts = time_range(segment.rows)
        return cls(
            header.first,
            header.count,
            segment.rows.num_rows,
            _count_late(segment, min_ts),
            min_ts,
            max_ts,
            header.frontier,
            header.created,
            *time_range(segment.future_points),
            header.created,
            bytes=size,
        )


_COLUMNS = tuple(field.name for field in fields(IndexEntry))


class Index:
    """The index entries of a stream, in the order of positions.

    ``begin``: the value of ``first`` and ``head`` while there are no entries. ``rows``, ``late``:
    the numbers of rows and of late rows. ``bytes``: the total size of the segments and runs in
    Ignite.
    """

    def __init__(self, begin: int = 0) -> None:
        self._begin = begin
        self._columns = {name: array("q") for name in _COLUMNS}
        self._top = array("q")
        self.late = 0
        self.rows = 0
        self.bytes = 0

    def __len__(self) -> int:
        return len(self._top)

    def __getitem__(self, number: int) -> IndexEntry:
        return IndexEntry(*[column[number] for column in self._columns.values()])

    @property
    def head(self) -> int:
        """The position after the last entry; ``begin`` if there are no entries."""
        if not self._top:
            return self._begin
        return self._columns["first"][-1] + self._columns["count"][-1]

    def totals(self, begin: int, end: int) -> tuple[int, int]:
        """Return the number of rows and the size (bytes) of the entries from ``begin`` to ``end``
        (exclusive).
        """
        return sum(self._columns["rows"][begin:end]), sum(self._columns["bytes"][begin:end])

    def append(self, entry: IndexEntry) -> None:
        """Add an entry at the end of the index; after an error, the index is unchanged."""
        # This raises for integers beyond 64 bits, before any column has grown.
        values = array("q", [getattr(entry, name) for name in _COLUMNS])
        for name, value in zip(_COLUMNS, values, strict=True):
            self._columns[name].append(value)
        self._count(entry, 1)
        top = self._top[-1] if self._top else EARLIEST
        self._top.append(max(top, entry.max_ts))

    def replace(self, span: range, entry: IndexEntry) -> None:
        """Replace the entries with the numbers ``span`` with ``entry``, the run made from them."""
        for number in span:
            self._count(self[number], -1)
        self._count(entry, 1)
        part = slice(span.start, span.stop)
        for name in _COLUMNS:
            value: int = getattr(entry, name)
            self._columns[name][part] = array("q", [value])
        self._top[part] = array("q", [self._top[span.stop - 1]])

    def drop(self, count: int) -> None:
        """Remove the first ``count`` entries."""
        for number in range(count):
            self._count(self[number], -1)
        for column in (*self._columns.values(), self._top):
            del column[:count]

    def _count(self, entry: IndexEntry, sign: int) -> None:
        self.late += sign * entry.late
        self.rows += sign * entry.rows
        self.bytes += sign * entry.bytes

    @property
    def first(self) -> int:
        """The first position of the first entry; ``begin`` if there are no entries."""
        return self._columns["first"][0] if self._top else self._begin

    def find(self, position: int) -> int:
        """Return the number of the entry that contains a position.

        For a position at or after the head, return the number of entries.
        """
        if position >= self.head:
            return len(self)
        return max(0, bisect_right(self._columns["first"], position) - 1)

    def seek(self, time: int) -> int:
        """Return the start of the first entry that may have rows with ``ts > time``.

        If no entry has such rows, return the head.
        """
        number = bisect_right(self._top, time)
        return self._columns["first"][number] if number < len(self) else self.head

    def entries_from(self, position: int) -> Iterator[IndexEntry]:
        """Yield the entries from the entry that contains a position to the last entry."""
        for number in range(self.find(position), len(self)):
            yield self[number]

    def reversed_entries(self) -> Iterator[tuple[IndexEntry, int]]:
        """Yield (entry, greatest ``ts``) for each entry, from the last entry to the first.

        The greatest ``ts`` is the greatest of all rows in the entry and in the entries before it.
        """
        entries = [(self[number], self._top[number]) for number in range(len(self))]
        yield from reversed(entries)

    def overlapping(self, start: int, end: int) -> list[IndexEntry]:
        """Return the entries that may have rows with ``start <= ts <= end``."""
        later = range(bisect_left(self._top, start), len(self))
        return [self[number] for number in self.matching(later, start, end)]

    def span(self, start: int, stop: int) -> range:
        """Return the numbers of the entries that contain the positions from ``start`` to ``stop``.

        ``stop`` is exclusive.
        """
        return range(self.find(start), bisect_left(self._columns["first"], stop))

    def matching(
        self, span: range, start: int | None, end: int | None, *, late: bool = False
    ) -> list[int]:
        """Return the numbers of the entries in ``span`` that may have rows with times in a range.

        ``start``, ``end``: the range (ms), inclusive; None: no bound. ``late``: consider only late
        rows.
        """

        def column(name: str) -> npt.NDArray[np.int64]:
            # A copy: an array with an exported buffer cannot grow.
            return np.frombuffer(self._columns[name][span.start : span.stop], np.int64)

        matching = column("rows") > 0
        if start is not None:
            matching &= column("max_ts") >= start
        if end is not None:
            matching &= column("min_ts") <= end
        if late:
            matching &= column("late") > 0
        found: list[int] = (np.flatnonzero(matching) + span.start).tolist()
        return found


def time_range(rows: pa.RecordBatch) -> tuple[int, int]:
    """Return the least and the greatest ``ts`` of rows.

    Returns (LATEST, EARLIEST) if no row has a ``ts``.
    """
    if rows.num_rows == 0 or "ts" not in rows.schema.names:
        return LATEST, EARLIEST
    column = rows["ts"]
    if column.null_count == 0 and column.type == pa.int64():
        # For the few rows of a segment, this is ten times faster than Arrow's functions.
        times = column.to_numpy()
        if len(times) <= _FEW_ROWS:
            listed = times.tolist()
            return min(listed), max(listed)
        return int(times.min()), int(times.max())
    ends = pc.min_max(column).as_py()
    if not isinstance(ends["min"], int):
        return LATEST, EARLIEST
    return ends["min"], ends["max"]


def split_by_size(entries: Iterable[IndexEntry], size: int) -> Iterator[list[IndexEntry]]:
    """Yield the entries in parts of at least ``size`` bytes; the last part may be smaller."""
    part: list[IndexEntry] = []
    left = size
    for entry in entries:
        part.append(entry)
        left -= entry.bytes
        if left <= 0:
            yield part
            part, left = [], size
    if part:
        yield part


def _count_late(segment: Segment, min_ts: int) -> int:
    if min_ts > segment.header.frontier_before:
        return 0
    late = segment.rows["ts"].drop_null().to_numpy() <= segment.header.frontier_before
    return int(np.count_nonzero(late))
