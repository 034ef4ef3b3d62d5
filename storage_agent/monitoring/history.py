"""Past points by series and time: what /get, queries and replicas of other sites are read by."""

import asyncio
from collections.abc import (
    AsyncIterator,
    Callable,
    Collection,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol, TypeVar

import pyarrow as pa

from mistbow.errors import MistbowError, TooLargeError, UnavailableError
from mistbow.streams.schemas import POINTS
from storage_agent.monitoring.bodies import LATEST_MS
from storage_agent.monitoring.catalogue import Metadata, Series
from storage_agent.monitoring.values import COLUMNS, Values
from storage_agent.streams.ahead import between
from storage_agent.streams.columns import Keys, as_list
from storage_agent.streams.index import Entry
from storage_agent.streams.log import StreamLog
from storage_agent.streams.runs import hash_of

T = TypeVar("T")

MOST_VALUES = 1_000_000

_PARTS_AT_ONCE = 32
_ROWS_AT_ONCE = 50_000
_LOOK_BACK_MS = (60_000, 600_000, 7_200_000, 86_400_000, 30 * 86_400_000, LATEST_MS)
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
            rows = batch.select(needed)
            # Of a block most rows are of other series, and few of another time.
            of_series = rows.filter(self.keys.among([rows["metric"], rows["entity"]]))
            found.append(between(of_series, self.start - 1, self.end).select(self.columns))
        return found


Read = Callable[[Collection[Series], int, int], AsyncIterator[pa.RecordBatch]]
"""Reads points with ``COLUMNS`` of series between two times."""


class Away(Protocol):
    """Series of which the points up to ``to`` (ms) are at another site, but for late ones.

    Those of numbers before ``before`` are all there.
    """

    @property
    def series(self) -> Collection[Series]:
        """Which series."""
        ...

    @property
    def to(self) -> int:
        """Up to which time, ms."""
        ...

    @property
    def before(self) -> int:
        """Before which number."""
        ...

    def read(
        self, start: int, end: int, columns: Sequence[str], reached: int
    ) -> AsyncIterator[pa.RecordBatch]:
        """Yield the points from there, with all late ones before the number ``reached``."""
        ...

    def reason(self, start: int, end: int, error: str) -> str:
        """Say in words what cannot be read, and why."""
        ...


class Elsewhere(Protocol):
    """Knows of points that are not here any more, but at another site."""

    def among(self, series: Collection[Series]) -> Iterable[Away]:
        """Return which of some series are elsewhere, none of them twice."""
        ...

    def reading(self) -> AbstractContextManager[None]:
        """Return what is entered while points are read: what is here stays until it is left."""
        ...

    async def latest(self, series: Collection[Series]) -> dict[Series, tuple[int, float]]:
        """Return their last times and values; raises a ``MistbowError`` if it cannot be known."""
        ...


class History:
    """The points of one stream of the schema ``POINTS``: this site's ``raw``, or a replica.

    ``elsewhere`` has those that have moved.
    """

    def __init__(self, points: StreamLog, elsewhere: Elsewhere | None = None) -> None:
        self._points = points
        self._elsewhere = elsewhere

    async def read(
        self,
        series: Collection[Series],
        start: int,
        end: int,
        *,
        columns: Sequence[str] = COLUMNS,
        most: int = MOST_VALUES,
        missing: list[str] | None = None,
    ) -> pa.Table:
        """Return the points of series with ``start <= ts <= end`` (ms).

        Those of a series with equal times are in the order of their numbers. Raises
        ``TooLargeError`` when there are more than ``most``; ``missing`` is as in ``batches``.
        """
        found = self.batches(series, start, end, columns=columns, most=most, missing=missing)
        parts = [part async for part in found]
        schema = pa.schema([POINTS.field(name) for name in columns])
        return pa.Table.from_batches(parts, schema)

    async def values(
        self,
        wanted: Mapping[Series, Metadata],
        start: int,
        end: int,
        missing: list[str] | None = None,
    ) -> Values:
        """Return what an answer tells of the same points; raises ``TooLargeError``."""
        values = Values(wanted)
        found = self.batches(wanted, start, end, most=MOST_VALUES, missing=missing)
        async for part in found:
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
        missing: list[str] | None = None,
    ) -> AsyncIterator[pa.RecordBatch]:
        """Yield the same points bit by bit, so that little is held, however many there are.

        What has moved to a site that does not answer is told in ``missing``; without such a list it
        raises ``UnavailableError``.
        """
        rows = 0
        async for batch in self._all(series, start, end, columns, missing):
            rows += batch.num_rows
            if most is not None and rows > most:
                raise TooLargeError(
                    f"this asks for more than {most} values",
                    hint="Ask for less time, or fewer metrics and entities.",
                )
            yield batch

    async def _all(
        self,
        series: Collection[Series],
        start: int,
        end: int,
        columns: Sequence[str],
        missing: list[str] | None,
    ) -> AsyncIterator[pa.RecordBatch]:
        if self._elsewhere is None:
            async for batch in self._here(series, start, end, columns):
                yield batch
            return
        with self._elsewhere.reading():
            found = self._both(self._elsewhere, series, start, end, columns, missing)
            async for batch in found:
                yield batch

    async def _both(
        self,
        elsewhere: Elsewhere,
        series: Collection[Series],
        start: int,
        end: int,
        columns: Sequence[str],
        missing: list[str] | None,
    ) -> AsyncIterator[pa.RecordBatch]:
        """Yield what is elsewhere, and then what is here: no point is read from both."""
        left = set(series)
        for away in elsewhere.among(series):
            left -= set(away.series)
            last = min(end, away.to)
            if start <= last:
                late = await self._has_late(away, start, last)
                try:
                    reached = self._points.head if late else 0
                    async for batch in away.read(start, last, columns, reached):
                        yield batch
                except MistbowError as error:
                    reason = away.reason(start, last, error.message)
                    if missing is None:
                        raise UnavailableError(reason) from error
                    missing.append(reason)
            async for batch in self._here(away.series, max(start, away.to + 1), end, columns):
                yield batch
        async for batch in self._here(left, start, end, columns):
            yield batch

    async def _has_late(self, away: Away, start: int, end: int) -> bool:
        """Tell whether points came for a time that has moved, after that was confirmed."""
        found = self._here(away.series, start, end, ("ts",), away.before)
        async for batch in found:
            if batch.num_rows:
                return True
        return False

    async def _here(
        self,
        series: Collection[Series],
        start: int,
        end: int,
        columns: Sequence[str],
        since: int = 0,
    ) -> AsyncIterator[pa.RecordBatch]:
        """Yield what is here, of commits and runs that do not end before a number."""
        if not series or start > end:
            return
        wanted = _Wanted(Keys(series), start, end, list(columns))
        parts = {hash_of(*one) for one in series}
        async for found in self._read(start, end, parts, since):
            if sum(batch.num_rows for batch in found) > _HERE:
                chosen = await asyncio.to_thread(wanted.among, found)
            else:
                chosen = wanted.among(found)
            for batch in chosen:
                yield batch

    async def _read(
        self, start: int, end: int, parts: Collection[int], since: int
    ) -> AsyncIterator[list[pa.RecordBatch]]:
        """Yield the points of a few blocks of runs, or of a few commits, at a time."""
        log = self._points
        # Points that are released while this reads are rows beyond the head of now.
        released = log.ahead.released
        entries = [each for each in self._entries(start, end) if each.next > since]
        blocks = [
            ((entry, block), entry.rows // entry.blocks)
            for entry in entries
            if entry.blocks
            for block in sorted({part % entry.blocks for part in parts})
        ]
        for some in _together(blocks):
            yield [batch for table in await log.blocks(some) for batch in table.to_batches()]
        for commits in _together([(entry, entry.rows) for entry in entries if not entry.blocks]):
            pieces = await log.pieces(commits)
            yield [piece.between(commits[0].first, commits[-1].next).batch for piece in pieces]
        if waiting := await log.waiting(entries, released):
            yield waiting

    def _entries(self, start: int, end: int) -> list[Entry]:
        """Return the entries that may have values in a time, in their order."""
        index = self._points.index
        waiting = [index[index.at(first)] for first in self._points.ahead.due(end)]
        found = {entry.first: entry for entry in (*index.overlapping(start, end), *waiting)}
        return [found[first] for first in sorted(found)]


async def last_values(
    read: Read, series: Collection[Series], about: int, end: int
) -> dict[Series, tuple[int, float]]:
    """Return the last time and value of each series, looking back further and further.

    ``about``: the time near which most are expected; ``end``: that after which none are, ms.
    """
    found: dict[Series, tuple[int, float]] = {}
    for back in _LOOK_BACK_MS:
        begin = max(0, about - back)
        left = [each for each in series if each not in found]
        async for rows in read(left, begin, end):
            columns = (as_list(rows[name]) for name in COLUMNS)
            for metric, entity, ts, value in zip(*columns, strict=True):
                known = found.get((metric, entity))
                if known is None or known[0] <= ts:
                    found[metric, entity] = (ts, value)
        end = begin - 1
        if len(found) == len(series) or begin == 0:
            break
    return found


def _together(parts: Iterable[tuple[T, int]]) -> Iterator[list[T]]:
    """Yield some parts at a time, each of so many rows."""
    some: list[T] = []
    rows = 0
    for part, count in parts:
        if some and (len(some) >= _PARTS_AT_ONCE or rows + count > _ROWS_AT_ONCE):
            yield some
            some, rows = [], 0
        some.append(part)
        rows += count
    if some:
        yield some
