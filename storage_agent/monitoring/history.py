"""Past points by series and time: what /get, queries and replicas of other sites are read by."""

import asyncio
from collections.abc import AsyncIterator, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from mistbow.errors import TooLargeError
from mistbow.streams.schemas import POINTS
from storage_agent.monitoring.catalogue import Metadata, Series
from storage_agent.monitoring.values import COLUMNS, Values
from storage_agent.streams.ahead import between
from storage_agent.streams.columns import Keys
from storage_agent.streams.index import Entry
from storage_agent.streams.log import StreamLog
from storage_agent.streams.runs import hash_of

MOST_VALUES = 1_000_000

_COMMITS_AT_ONCE = 32
_ROWS_AT_ONCE = 50_000
_HERE = 5_000
"""So many rows are looked at between other requests; more are in a thread of their own."""


@dataclass(frozen=True, slots=True)
class _Wanted:
    keys: Keys
    start: int
    end: int
    columns: list[str]

    def among(self, batches: Sequence[pa.RecordBatch]) -> list[pa.RecordBatch]:
        """Return what is wanted of points."""
        found = []
        needed = list({"metric", "entity", "ts", *self.columns})
        for batch in batches:
            timely = between(batch.select(needed), self.start - 1, self.end)
            chosen = self.keys.among([timely["metric"], timely["entity"]])
            found.append(timely.select(self.columns).filter(chosen))
        return found


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
        columns: Sequence[str] = COLUMNS,
        most: int = MOST_VALUES,
    ) -> pa.Table:
        """Return the points of series with ``start <= ts <= end`` (ms).

        Those of a series with equal times are in the order of their numbers. Raises
        ``TooLargeError`` when there are more than ``most``.
        """
        parts = [
            part async for part in self.batches(series, start, end, columns=columns, most=most)
        ]
        schema = pa.schema([POINTS.field(name) for name in columns])
        return pa.Table.from_batches(parts, schema)

    async def values(self, wanted: Mapping[Series, Metadata], start: int, end: int) -> Values:
        """Return what an answer tells of the same points; raises ``TooLargeError``."""
        values = Values(wanted)
        async for part in self.batches(wanted, start, end, most=MOST_VALUES):
            values.add(part)
        return values

    async def batches(
        self,
        series: Collection[Series],
        start: int,
        end: int,
        *,
        columns: Sequence[str] = COLUMNS,
        most: int | None = None,
    ) -> AsyncIterator[pa.RecordBatch]:
        """Yield the same points bit by bit, so that little is held, however many there are."""
        if not series:
            return
        wanted = _Wanted(Keys(series), start, end, list(columns))
        parts = {hash_of(*one) for one in series}
        rows = 0
        async for found in self._read(start, end, parts):
            if sum(batch.num_rows for batch in found) > _HERE:
                chosen = await asyncio.to_thread(wanted.among, found)
            else:
                chosen = wanted.among(found)
            for batch in chosen:
                rows += batch.num_rows
                if most is not None and rows > most:
                    raise TooLargeError(
                        f"this asks for more than {most} values",
                        hint="Ask for less time, or fewer metrics and entities.",
                    )
                yield batch

    async def _read(
        self, start: int, end: int, parts: Collection[int]
    ) -> AsyncIterator[list[pa.RecordBatch]]:
        """Yield the points of some commits, or of one block of a run, at a time."""
        log = self._points
        # Points that are released while this reads are rows beyond the head of now.
        released = log.ahead.released
        for entries in _together(self._entries(start, end)):
            first = entries[0]
            if first.blocks:
                for block in sorted({part % first.blocks for part in parts}):
                    yield (await log.block(first, block)).to_batches()
            else:
                pieces = await log.pieces(entries)
                yield [piece.between(first.first, entries[-1].next).batch for piece in pieces]
            if waiting := await log.waiting(entries, released):
                yield waiting

    def _entries(self, start: int, end: int) -> list[Entry]:
        """Return the entries that may have values in a time, in their order."""
        index = self._points.index
        waiting = [index[index.at(first)] for first in self._points.ahead.due(end)]
        found = {entry.first: entry for entry in (*index.overlapping(start, end), *waiting)}
        return [found[first] for first in sorted(found)]


def _together(entries: Sequence[Entry]) -> Iterator[list[Entry]]:
    """Yield each run alone, and some commits at a time."""
    some: list[Entry] = []
    rows = 0
    for entry in entries:
        full = len(some) >= _COMMITS_AT_ONCE or rows + entry.rows > _ROWS_AT_ONCE
        if some and (full or entry.blocks or some[0].blocks):
            yield some
            some, rows = [], 0
        some.append(entry)
        rows += entry.rows
    if some:
        yield some
