"""The index of a stream: a few numbers for each segment, in memory and in pages in Ignite."""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import astuple, dataclass, fields
from typing import Self

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from storage_agent.streams.segments import Segment

PAGE = 256
"""Segments in one page."""

_EARLIEST = -(2**63)
_LATEST = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Entry:
    """One segment. Without rows (or rows without time), ``min_ts`` is greater than ``max_ts``."""

    first: int
    count: int
    rows: int
    late: int
    min_ts: int
    max_ts: int
    frontier: int
    created: int
    ahead_min_ts: int
    ahead_max_ts: int

    @property
    def next(self) -> int:
        """The number after the segment's last."""
        return self.first + self.count

    @classmethod
    def of(cls, segment: Segment) -> Self:
        """Sum a segment up."""
        header = segment.header
        return cls(
            header.first,
            header.count,
            segment.rows.num_rows,
            _late_rows(segment),
            *time_range(segment.rows),
            header.frontier,
            header.created,
            *time_range(segment.ahead),
        )


_COLUMNS = tuple(field.name for field in fields(Entry))


class Index:
    """The entries of a stream in order, and the greatest time among the rows up to each.

    ``late`` is how many of the rows came late.
    """

    def __init__(self) -> None:
        self._columns = {name: array("q") for name in _COLUMNS}
        self._top = array("q")
        self.late = 0

    def __len__(self) -> int:
        return len(self._top)

    def __getitem__(self, position: int) -> Entry:
        return Entry(*(self._columns[name][position] for name in _COLUMNS))

    @property
    def head(self) -> int:
        """The next number of the stream."""
        return self[-1].next if self._top else 0

    def append(self, entry: Entry) -> None:
        """Add the entry of the segment at the head, all of it or nothing."""
        # This raises for what does not fit before any column has grown.
        values = array("q", astuple(entry))
        for name, value in zip(_COLUMNS, values, strict=True):
            self._columns[name].append(value)
        self.late += entry.late
        top = self._top[-1] if self._top else _EARLIEST
        self._top.append(max(top, entry.max_ts))

    def at(self, number: int) -> int:
        """Return the position of the segment that holds ``number``; the length if none does."""
        if number >= self.head:
            return len(self)
        return max(0, bisect_right(self._columns["first"], number) - 1)

    def seek(self, time: int) -> int:
        """Return the greatest start of a segment before which every row has ``ts <= time``."""
        position = bisect_right(self._top, time)
        return self._columns["first"][position] if position < len(self) else self.head

    def from_number(self, number: int) -> Iterator[Entry]:
        """Yield the entries from the one that holds ``number``, as far as there are now."""
        for position in range(self.at(number), len(self)):
            yield self[position]

    def overlapping(self, start: int, end: int) -> list[Entry]:
        """Return the entries of segments that may have rows with ``start <= ts <= end``."""
        later = range(bisect_left(self._top, start), len(self))
        return [self[position] for position in self.holding(later, start, end)]

    def span(self, start: int, stop: int) -> range:
        """Return the positions of the segments that hold numbers from ``start`` before ``stop``."""
        return range(self.at(start), bisect_left(self._columns["first"], stop))

    def holding(
        self, span: range, start: int | None, end: int | None, *, late: bool = False
    ) -> list[int]:
        """Return the positions in ``span`` of segments with rows that may be wanted.

        Wanted are rows with ``start <= ts <= end``; with ``late``, only those that came late.
        """

        def column(name: str) -> npt.NDArray[np.int64]:
            # A copy: an array that NumPy looks at cannot grow.
            return np.frombuffer(self._columns[name][span.start : span.stop], np.int64)

        held = column("rows") > 0
        if start is not None:
            held &= column("max_ts") >= start
        if end is not None:
            held &= column("min_ts") <= end
        if late:
            held &= column("late") > 0
        found: list[int] = (np.flatnonzero(held) + span.start).tolist()
        return found

    def frontier_at(self, number: int) -> int:
        """Return the frontier of the last segment that ends at or before ``number``."""
        position = self.at(number)
        return self._columns["frontier"][position - 1] if position else 0

    def page(self, page: int) -> bytes:
        """Return a full page as Ignite keeps it."""
        part = slice(page * PAGE, (page + 1) * PAGE)
        return msgspec.msgpack.encode([list(self._columns[name][part]) for name in _COLUMNS])

    def append_page(self, page: bytes) -> None:
        """Add the entries of a page."""
        columns = msgspec.msgpack.decode(page, type=list[list[int]])
        for values in zip(*columns, strict=True):
            self.append(Entry(*values))


def time_range(rows: pa.RecordBatch) -> tuple[int, int]:
    """Return the least and greatest ``ts`` of rows; nothing at all reads as (latest, earliest)."""
    if rows.num_rows == 0 or "ts" not in rows.schema.names:
        return _LATEST, _EARLIEST
    ends = pc.min_max(rows["ts"]).as_py()
    if not isinstance(ends["min"], int):
        return _LATEST, _EARLIEST
    return ends["min"], ends["max"]


def _late_rows(segment: Segment) -> int:
    if time_range(segment.rows)[0] > segment.header.horizon:
        return 0
    return int(pc.sum(pc.less_equal(segment.rows["ts"], segment.header.horizon)).as_py() or 0)
