"""The index of a stream, in memory: a few numbers for each commit and each run."""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
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


@dataclass(frozen=True, slots=True)
class Entry:
    """A commit's segment, or a run of many commits, which is in ``blocks``.

    Without rows (or rows without time), ``min_ts`` is greater than ``max_ts``. ``oldest`` and
    ``created`` are when its first and its last commit were, and ``bytes`` as they are kept.
    """

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
    oldest: int = 0
    commits: int = 1
    blocks: int = 0
    bytes: int = 0

    @property
    def next(self) -> int:
        """The number after the segment's last."""
        return self.first + self.count

    @classmethod
    def of_run(cls, run: Run) -> Self:
        """Sum a run up."""
        return cls(*(getattr(run, name) for name in _COLUMNS))

    @classmethod
    def of(cls, segment: Segment, size: int = 0) -> Self:
        """Sum a segment up, which is kept in so many bytes."""
        header = segment.header
        least, most = time_range(segment.rows)
        return cls(
            header.first,
            header.count,
            segment.rows.num_rows,
            _late_rows(segment, least),
            least,
            most,
            header.frontier,
            header.created,
            *time_range(segment.ahead),
            header.created,
            bytes=size,
        )


_COLUMNS = tuple(field.name for field in fields(Entry))


class Index:
    """The entries of a stream in order, and the greatest time among the rows up to each.

    ``rows`` is how many there are, ``late`` how many of them came late.
    """

    def __init__(self) -> None:
        self._columns = {name: array("q") for name in _COLUMNS}
        self._top = array("q")
        self.late = 0
        self.rows = 0
        self.bytes = 0

    def __len__(self) -> int:
        return len(self._top)

    def __getitem__(self, position: int) -> Entry:
        return Entry(*[column[position] for column in self._columns.values()])

    @property
    def head(self) -> int:
        """The next number of the stream."""
        if not self._top:
            return 0
        return self._columns["first"][-1] + self._columns["count"][-1]

    def append(self, entry: Entry) -> None:
        """Add the entry of the segment at the head, all of it or nothing."""
        # This raises for what does not fit before any column has grown.
        values = array("q", [getattr(entry, name) for name in _COLUMNS])
        for name, value in zip(_COLUMNS, values, strict=True):
            self._columns[name].append(value)
        self._count(entry, 1)
        top = self._top[-1] if self._top else EARLIEST
        self._top.append(max(top, entry.max_ts))

    def replace(self, span: range, entry: Entry) -> None:
        """Put a run in the place of what it was made of."""
        for position in span:
            self._count(self[position], -1)
        self._count(entry, 1)
        part = slice(span.start, span.stop)
        for name in _COLUMNS:
            value: int = getattr(entry, name)
            self._columns[name][part] = array("q", [value])
        self._top[part] = array("q", [self._top[span.stop - 1]])

    def drop(self, entries: int) -> None:
        """Forget so many of the first entries."""
        for position in range(entries):
            self._count(self[position], -1)
        for column in (*self._columns.values(), self._top):
            del column[:entries]

    def _count(self, entry: Entry, sign: int) -> None:
        self.late += sign * entry.late
        self.rows += sign * entry.rows
        self.bytes += sign * entry.bytes

    @property
    def first(self) -> int:
        """The first number that there is."""
        return self._columns["first"][0] if self._top else 0

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

    def backwards(self) -> Iterator[tuple[Entry, int]]:
        """Yield the entries of now, the last first, and the greatest time up to each."""
        entries = [(self[position], self._top[position]) for position in range(len(self))]
        yield from reversed(entries)

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


def time_range(rows: pa.RecordBatch) -> tuple[int, int]:
    """Return the least and greatest ``ts`` of rows; nothing at all reads as (latest, earliest)."""
    if rows.num_rows == 0 or "ts" not in rows.schema.names:
        return LATEST, EARLIEST
    column = rows["ts"]
    if column.null_count == 0 and column.type == pa.int64():
        # A commit has few rows: for those this is ten times faster than Arrow's own functions.
        times = column.to_numpy()
        return int(times.min()), int(times.max())
    ends = pc.min_max(column).as_py()
    if not isinstance(ends["min"], int):
        return LATEST, EARLIEST
    return ends["min"], ends["max"]


def _late_rows(segment: Segment, least: int) -> int:
    if least > segment.header.horizon:
        return 0
    late = segment.rows["ts"].drop_null().to_numpy() <= segment.header.horizon
    return int(np.count_nonzero(late))
