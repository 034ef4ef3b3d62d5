"""Points ahead of the clock: which segments hold some that are not released yet."""

from collections.abc import Iterable

import pyarrow as pa
import pyarrow.compute as pc

from storage_agent.streams.index import Entry, Index, time_range
from storage_agent.streams.segments import Segment


class Ahead:
    """A lower bound of the times waiting in each segment, and their greatest.

    Those up to ``released`` (milliseconds) do not wait any more.
    """

    def __init__(self, released: int = 0) -> None:
        self.released = released
        self._waiting: dict[int, tuple[int, int]] = {}

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def recover(self, index: Index) -> None:
        """Find the segments that hold waiting points."""
        for position in range(len(index)):
            self._note(index[position])

    def absorb(self, segment: Segment, entry: Entry) -> None:
        """Follow a segment that was stored: it may bring waiting points, or release some."""
        if segment.header.released > self.released:
            self.released = segment.header.released
            waiting, self._waiting = self._waiting, {}
            for first, times in waiting.items():
                self._add(first, *times)
        self._note(entry)

    def due(self, limit: int) -> list[int]:
        """Return the first numbers of segments that may have points to release up to ``limit``."""
        return [first for first, (least, _) in self._waiting.items() if least <= limit]

    def settle(self, first: int, ahead: pa.RecordBatch) -> None:
        """Look at what still waits in the entry that begins at ``first``, for an exact bound."""
        self._waiting.pop(first, None)
        self._add(first, *time_range(between(ahead, self.released, None)))

    def merge(self, firsts: Iterable[int], entry: Entry) -> None:
        """Follow entries that became one run."""
        self.forget(firsts)
        self._note(entry)

    def forget(self, firsts: Iterable[int]) -> None:
        """Follow entries that are evicted."""
        for first in firsts:
            self._waiting.pop(first, None)

    def _note(self, entry: Entry) -> None:
        self._add(entry.first, entry.ahead_min_ts, entry.ahead_max_ts)

    def _add(self, first: int, least: int, most: int) -> None:
        if most > self.released:
            self._waiting[first] = max(least, self.released + 1), most


def between(rows: pa.RecordBatch, after: int, up_to: int | None) -> pa.RecordBatch:
    """Return the rows with ``after < ts <= up_to``."""
    chosen = pc.greater(rows["ts"], after)
    if up_to is not None:
        chosen = pc.and_(chosen, pc.less_equal(rows["ts"], up_to))
    return rows.filter(chosen)
