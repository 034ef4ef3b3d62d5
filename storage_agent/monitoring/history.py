"""Past points by series and time: what /get, queries and replicas of other sites are read by."""

from collections.abc import AsyncIterator, Collection, Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from mistbow.errors import TooLargeError
from mistbow.streams.schemas import POINTS
from storage_agent.monitoring.catalogue import Series
from storage_agent.streams.ahead import between
from storage_agent.streams.columns import index_in, is_in
from storage_agent.streams.index import Entry
from storage_agent.streams.log import StreamLog
from storage_agent.streams.segments import Segment

MOST_VALUES = 1_000_000

_SEGMENTS_AT_ONCE = 32
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
        wanted = _Wanted(series)
        # Points that are released while this reads are rows beyond the head of now.
        released = self._points.ahead.released
        entries = self._entries(start, end)
        for begin in range(0, len(entries), _SEGMENTS_AT_ONCE):
            segments = await self._points.segments(entries[begin : begin + _SEGMENTS_AT_ONCE])
            for batch in _rows(segments, start, end, released):
                yield batch.filter(wanted.among(batch)).select(columns)

    def _entries(self, start: int, end: int) -> list[Entry]:
        """Return the entries of segments that may have values in a time, in their order."""
        index = self._points.index
        waiting = [index[index.at(first)] for first in self._points.ahead.due(end)]
        found = {entry.first: entry for entry in (*index.overlapping(start, end), *waiting)}
        return [found[first] for first in sorted(found)]


class _Wanted:
    """Tells rows of some series from others."""

    def __init__(self, series: Collection[Series]) -> None:
        self._metrics = pa.array(sorted({metric for metric, _ in series}), pa.string())
        self._entities = pa.array(sorted({entity for _, entity in series}), pa.string())
        self._pairs: pa.Array | None = None
        # Where every pairing of these metrics and entities is wanted, looking at each will do.
        if len(self._metrics) * len(self._entities) > len(series):
            metrics, entities = zip(*series, strict=True)
            self._pairs = self._numbered(pa.array(metrics), pa.array(entities))

    def among(self, rows: pa.RecordBatch) -> pa.Array:
        """Return of each row whether its series is wanted."""
        chosen = pc.and_(
            is_in(rows["metric"], self._metrics), is_in(rows["entity"], self._entities)
        )
        if self._pairs is None or not pc.any(chosen).as_py():
            return chosen
        return pc.is_in(self._numbered(rows["metric"], rows["entity"]), self._pairs)

    def _numbered(self, metrics: pa.Array, entities: pa.Array) -> pa.Array:
        """Return a number for each pair of a wanted metric and a wanted entity, null for others."""
        metric = index_in(metrics, self._metrics).cast(pa.int64())
        entity = index_in(entities, self._entities).cast(pa.int64())
        return pc.add(pc.multiply(metric, len(self._entities)), entity)


def _rows(
    segments: Sequence[Segment], start: int, end: int, released: int
) -> Iterator[pa.RecordBatch]:
    for segment in segments:
        yield between(segment.rows, start - 1, end)
        if segment.ahead.num_rows:
            yield between(segment.ahead, max(start - 1, released), end)
