"""The reader of the latest results.

The reader reads streams backwards, in time ranges of increasing length, and stops when it has
enough results.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import pyarrow as pa

from analytics_enabler.groups import Group
from analytics_enabler.results.cursor import Cursor, Since, Start
from analytics_enabler.results.selection import ResultSelection
from analytics_enabler.results.streams import (
    MAX_READ_BYTES,
    ResultStreams,
    SiteUnreachableError,
    TooManyRowsError,
)
from mistbow.clock import Clock
from mistbow.errors import TooLargeError
from mistbow.streams.results import current_results, latest_revisions
from mistbow.streams.schemas import RESULT_ROWS
from mistbow.streams.wire import Position

FIRST_TICKS = 64
MIN_FIRST_MS = 60_000
"""The least length (ms) of the first time range; insights without EVERY have ticks of 200 ms."""

GROWTH = 4

_SPARSE_SHARE = 8
"""After a dense range, ranges grow again when one has less than 1/8 of the maximum bytes."""

T = TypeVar("T")


MAX_ANSWER_BYTES = 32 * 2**20
"""The maximum size (in Arrow) of the results of one answer; in JSON they take a few times more."""

_BATCH_ROWS = 1000
_ORDER = [("ts", "ascending"), ("insight", "ascending"), ("key", "ascending")]


@dataclass(frozen=True, slots=True)
class LatestResults:
    """The latest results (``RESULT_ROWS``) of a selection, in the order of time.

    ``missing_sites``: the names of the unreachable sites, whose results are not included.
    """

    selection: ResultSelection
    table: pa.Table
    missing_sites: list[str]

    def batches(self) -> Iterator[list[dict[str, Any]]]:
        """Yield the results in the form that the API returns, a number of them at a time."""
        for batch in self.table.to_batches(max_chunksize=_BATCH_ROWS):
            yield [self.selection.shown(row) for row in batch.to_pylist()]


class ResultReader:
    """Reads the streams with the results of a selection, several streams concurrently."""

    def __init__(self, streams: ResultStreams, clock: Clock) -> None:
        self._streams = streams
        self._clock = clock

    async def latest(
        self, selection: ResultSelection, *, start: int | None, end: int | None, limit: int
    ) -> LatestResults:
        """Return the latest ``limit`` results with ``start <= ts <= end`` (None: no bound).

        Raises ``TooLargeError`` if the results have more than ``MAX_ANSWER_BYTES``.
        """

        async def read(group: Group, part: ResultSelection) -> pa.Table:
            return await self._latest(group, part, start, end, limit)

        by_group, missing = await read_groups(selection, read)
        tables = [RESULT_ROWS.empty_table(), *by_group.values()]
        found = _last(pa.concat_tables(tables).sort_by(_ORDER), limit)
        _check_size(found)
        return LatestResults(selection, found, missing)

    async def revisions(
        self, selection: ResultSelection, starts: Mapping[str, Start]
    ) -> list[tuple[tuple[str, str, int], int]]:
        """Return pairs ((uid, key, ts), latest revision) for the results at the latest ticks.

        ``starts``: group id -> the position before which rows are read.
        """

        async def read(group: Group, part: ResultSelection) -> list[dict[str, Any]]:
            start = starts.get(group.id, Position(0, 0))
            if isinstance(start, Since) or not start.next:
                return []
            span = _first_range_ms(part)
            while span:
                lower = max(self._clock() - span, part.since + 1)
                try:
                    rows = await self._streams.rows(group, part, lower, None, start.next)
                    return latest_revisions(rows).to_pylist()  # type: ignore[no-any-return]
                except TooManyRowsError:
                    span //= 2
            return []

        by_group, _ = await read_groups(selection, read)
        rows = [row for rows in by_group.values() for row in rows]
        return [((r["insight"], r["key"], r["ts"]), r["revision"]) for r in rows]

    async def end(self, selection: ResultSelection) -> Cursor:
        """Return the cursor at which new results start: at the ends of the streams of all groups.

        If the site of a stream is unreachable, the results start at the current time instead.
        """
        now = Since(self._clock())
        ends, _ = await read_groups(selection, lambda group, _: self._streams.end(group))
        starts = {group.id: ends.get(group, now) for group in selection.groups}
        return Cursor(self._streams.own_site(), starts)

    async def _latest(
        self, group: Group, part: ResultSelection, start: int | None, end: int | None, limit: int
    ) -> pa.Table:
        found = RESULT_ROWS.empty_table()
        oldest = max(part.since + 1, start or 0)
        if end is not None and end < oldest:
            return found
        head = (await self._streams.end(group)).next
        upper = end
        span, growth = _first_range_ms(part), GROWTH
        lower = (self._clock() if end is None else end) - span
        while found.num_rows < limit:
            lower = max(lower, oldest)
            try:
                rows = await self._streams.rows(group, part, lower, upper, head)
            except TooManyRowsError:
                last = self._clock() if upper is None else upper
                if lower >= last:
                    raise _too_many_at(last) from None
                span, growth = (last - lower) // 2, 1
                lower = last - span
                continue
            if rows.nbytes * _SPARSE_SHARE < MAX_READ_BYTES:
                growth = GROWTH
            earlier = part.visible(_conform(current_results(rows)))
            found = _last(pa.concat_tables([earlier, found]), limit)
            _check_size(found)
            if lower <= oldest:
                break
            upper, span = lower - 1, max(span * growth, 1)
            lower = upper - span
        return found


def _conform(rows: pa.Table) -> pa.Table:
    """Return rows with the columns of today; those that an earlier version lacks are null."""
    columns = [
        rows[field.name].cast(field.type)
        if field.name in rows.schema.names
        else pa.nulls(rows.num_rows, field.type)
        for field in RESULT_ROWS
    ]
    return pa.table(columns, schema=RESULT_ROWS)


def _last(rows: pa.Table, limit: int) -> pa.Table:
    """Return a copy of the last ``limit`` rows, so that the memory of the others is freed."""
    if rows.num_rows <= limit:
        return rows
    return rows.take(pa.array(range(rows.num_rows - limit, rows.num_rows), pa.int64()))


def _check_size(rows: pa.Table) -> None:
    if rows.nbytes > MAX_ANSWER_BYTES:
        fitting = max(1, rows.num_rows * MAX_ANSWER_BYTES // rows.nbytes)
        raise TooLargeError(
            f"the latest {rows.num_rows} results have more than {MAX_ANSWER_BYTES} bytes",
            hint=f"Send a limit of about {fitting}. To read earlier results, also send a `to` "
            "before the first of these results. Or request one insight, or a shorter time by "
            "`from` and `to`.",
        )


def _too_many_at(time: int) -> TooLargeError:
    return TooLargeError(
        f"the results at the time {time} have more than {MAX_READ_BYTES} bytes",
        hint="Select one insight by the parameter insight, or read the stream of results in pages.",
    )


def _first_range_ms(selection: ResultSelection) -> int:
    return max(FIRST_TICKS * selection.every_ms, MIN_FIRST_MS)


async def read_groups(
    selection: ResultSelection, read: Callable[[Group, ResultSelection], Awaitable[T]]
) -> tuple[dict[Group, T], list[str]]:
    """Call ``read`` for each group; return (group -> answer, sorted names of unreachable sites)."""
    groups = selection.groups
    answers = await asyncio.gather(
        *(read(group, part) for group, part in groups.items()), return_exceptions=True
    )
    by_group: dict[Group, T] = {}
    missing: set[str] = set()
    for group, answer in zip(groups, answers, strict=True):
        if isinstance(answer, SiteUnreachableError):
            missing.add(str(answer))
        elif isinstance(answer, BaseException):
            raise answer
        else:
            by_group[group] = answer
    return by_group, sorted(missing)
