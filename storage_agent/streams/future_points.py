"""The segments and runs that contain future points which are not yet rows of the stream."""

from collections.abc import Iterable

import pyarrow as pa
import pyarrow.compute as pc

from storage_agent.streams.index import Index, IndexEntry, time_range
from storage_agent.streams.segments import Segment


class FuturePoints:
    """The segments and runs that contain future points, each with the time range of its points.

    A time range may begin before the first future point. ``released``: points with ``ts <=
    released`` (ms) are already rows of the stream.
    """

    def __init__(self, released: int = 0) -> None:
        self.released = released
        self._pending: dict[int, tuple[int, int]] = {}

    def __bool__(self) -> bool:
        return bool(self._pending)

    def recover(self, index: Index) -> None:
        """Add those segments and runs of an index that contain future points."""
        for number in range(len(index)):
            self._add_entry(index[number])

    def apply(self, segment: Segment, entry: IndexEntry) -> None:
        """Update the time ranges for a segment, which may contain or release future points."""
        if segment.header.released > self.released:
            self.released = segment.header.released
            pending, self._pending = self._pending, {}
            for first, times in pending.items():
                self._add(first, *times)
        self._add_entry(entry)

    def due_segments(self, limit: int) -> list[int]:
        """Return the first positions of segments and runs that may have points up to ``limit``."""
        return [first for first, (min_ts, _) in self._pending.items() if min_ts <= limit]

    def refresh(self, first: int, pending: pa.RecordBatch) -> None:
        """Set the exact time range of the segment at ``first``, computed from its pending points.

        ``pending``: the visible points of the segment that are not released. With expired or
        deleted points, which are never released, the segment would stay due forever.
        """
        self._pending.pop(first, None)
        self._add(first, *time_range(pending))

    def replace(self, firsts: Iterable[int], entry: IndexEntry) -> None:
        """Replace the time ranges of merged segments or runs with the time range of the new run."""
        self.forget(firsts)
        self._add_entry(entry)

    def forget(self, firsts: Iterable[int]) -> None:
        """Remove the time ranges of segments or runs that begin at ``firsts``."""
        for first in firsts:
            self._pending.pop(first, None)

    def _add_entry(self, entry: IndexEntry) -> None:
        self._add(entry.first, entry.future_min_ts, entry.future_max_ts)

    def _add(self, first: int, min_ts: int, max_ts: int) -> None:
        if max_ts > self.released:
            self._pending[first] = max(min_ts, self.released + 1), max_ts


def select_times(rows: pa.RecordBatch, after: int, up_to: int | None) -> pa.RecordBatch:
    """Return the rows with ``after < ts <= up_to``; ``up_to`` None: no upper bound."""
    chosen = pc.greater(rows["ts"], after)
    if up_to is not None:
        chosen = pc.and_(chosen, pc.less_equal(rows["ts"], up_to))
    return rows.filter(chosen)
