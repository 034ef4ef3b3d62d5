"""Points ahead of the clock: which segments hold some that are not released yet."""

import pyarrow as pa
import pyarrow.compute as pc

from storage_agent.index import Entry, Index, time_range
from storage_agent.segments import Segment

AHEAD_MS = 10_000
"""A point that is further than this ahead of the clock waits until it is not."""


class Ahead:
    """The least time among the waiting points of each segment that holds any."""

    def __init__(self, released: int = 0) -> None:
        self.released = released
        self._waiting: dict[int, int] = {}

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def recover(self, index: Index) -> None:
        """Find the segments that may hold waiting points."""
        for position in range(len(index)):
            self._note(index[position])

    def absorb(self, segment: Segment, entry: Entry) -> None:
        """Follow a segment that was stored: it may bring waiting points, or release some."""
        self.released = max(self.released, segment.header.released)
        self._note(entry)

    def due(self, limit: int) -> list[int]:
        """Return the first numbers of the segments with points to release up to ``limit``."""
        return [first for first, least in self._waiting.items() if least <= limit]

    def settle(self, segment: Segment) -> None:
        """Look again at what waits in a segment of which points were released."""
        least, most = time_range(between(segment.ahead, self.released, None))
        if least > most:
            self._waiting.pop(segment.header.first, None)
        else:
            self._waiting[segment.header.first] = least

    def _note(self, entry: Entry) -> None:
        if entry.ahead_max_ts > self.released:
            self._waiting[entry.first] = max(entry.ahead_min_ts, self.released + 1)


def between(rows: pa.RecordBatch, after: int, up_to: int | None) -> pa.RecordBatch:
    """Return the rows with ``after < ts <= up_to``."""
    chosen = pc.greater(rows["ts"], after)
    if up_to is not None:
        chosen = pc.and_(chosen, pc.less_equal(rows["ts"], up_to))
    return rows.filter(chosen)
