"""Past points by series and time: what /get, queries and replicas of other sites are read by."""

from collections.abc import AsyncIterator, Collection, Sequence

import pyarrow as pa

from mistbow.errors import TooLargeError
from mistbow.streams.schemas import POINTS
from storage_agent.monitoring.catalogue import Series
from storage_agent.streams.ahead import between
from storage_agent.streams.columns import Keys
from storage_agent.streams.index import Entry
from storage_agent.streams.log import StreamLog
from storage_agent.streams.runs import hash_of

MOST_VALUES = 1_000_000

_ENTRIES_AT_ONCE = 32
_COLUMNS = ("metric", "entity", "ts", "value")


class History:
    """The points of one stream of the schema ``POINTS``: this site's ``raw``, or a replica."""

    def __init__(self, points: StreamLog) -> None:
        self._points = points

    async def read(
        self,
        series: Collection[Series],
        start: int,
        end: int,
        *,
        columns: Sequence[str] = _COLUMNS,
        most: int = MOST_VALUES,
    ) -> pa.Table:
        """Return the points of series with ``start <= ts <= end`` (ms), in order of their numbers.

        Raises ``TooLargeError`` when there are more than ``most``.
        """
        parts: list[pa.RecordBatch] = []
        rows = 0
        async for part in self.batches(series, start, end, columns=columns):
            parts.append(part)
            rows += part.num_rows
            if rows > most:
                raise TooLargeError(
                    f"this asks for more than {most} values",
                    hint="Ask for less time, or fewer metrics and entities.",
                )
        schema = pa.schema([POINTS.field(name) for name in columns])
        return pa.Table.from_batches(parts, schema)

    async def batches(
        self,
        series: Collection[Series],
        start: int,
        end: int,
        *,
        columns: Sequence[str] = _COLUMNS,
    ) -> AsyncIterator[pa.RecordBatch]:
        """Yield the same points bit by bit, however many there are."""
        if not series:
            return
        wanted = Keys(series)
        parts = {hash_of(*one) for one in series}
        log = self._points
        # Points that are released while this reads are rows beyond the head of now.
        released = log.ahead.released
        entries = self._entries(start, end)
        for begin in range(0, len(entries), _ENTRIES_AT_ONCE):
            some = entries[begin : begin + _ENTRIES_AT_ONCE]
            found = [*await log.points(some, parts), *await log.waiting(some, released)]
            for batch in found:
                timely = between(batch, start - 1, end)
                chosen = wanted.among([timely["metric"], timely["entity"]])
                yield timely.filter(chosen).select(columns)

    def _entries(self, start: int, end: int) -> list[Entry]:
        """Return the entries that may have values in a time, in their order."""
        index = self._points.index
        waiting = [index[index.at(first)] for first in self._points.ahead.due(end)]
        found = {entry.first: entry for entry in (*index.overlapping(start, end), *waiting)}
        return [found[first] for first in sorted(found)]
