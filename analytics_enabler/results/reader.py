"""The reader of the latest results.

The reader reads streams backwards, in time ranges of increasing length, and stops when it has
enough results.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from analytics_enabler.groups import Group
from analytics_enabler.results.cursor import Since, Start
from analytics_enabler.results.selection import ResultSelection
from analytics_enabler.results.streams import ResultStreams, SiteUnreachableError
from mistbow.clock import Clock
from mistbow.streams.results import current_results, latest_revisions

FIRST_TICKS = 64
MIN_FIRST_MS = 60_000
"""The least length (ms) of the first time range; insights without EVERY have ticks of 200 ms."""

GROWTH = 4

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class LatestResults:
    """The latest results in the order of time, in the form that the API returns.

    ``missing_sites``: the names of the unreachable sites, whose results are not included.
    """

    rows: list[dict[str, Any]]
    missing_sites: list[str]


class ResultReader:
    """Reads the streams with the results of a selection, several streams concurrently."""

    def __init__(self, streams: ResultStreams, clock: Clock) -> None:
        self._streams = streams
        self._clock = clock

    async def latest(
        self, selection: ResultSelection, *, start: int | None, end: int | None, limit: int
    ) -> LatestResults:
        """Return the latest ``limit`` results with ``start <= ts <= end`` (None: no bound)."""

        async def read(group: Group, part: ResultSelection) -> list[dict[str, Any]]:
            return await self._latest(group, part, start, end, limit)

        by_group, missing = await _read_groups(selection, read)
        rows = sorted(
            (row for rows in by_group.values() for row in rows),
            key=lambda row: (row["ts"], row["insight"], row["key"]),
        )
        return LatestResults([selection.shown(row) for row in rows[-limit:]], missing)

    async def revisions(
        self, selection: ResultSelection, starts: Mapping[str, Start]
    ) -> list[tuple[tuple[str, str, int], int]]:
        """Return pairs ((uid, key, ts), latest revision) for the results at the latest ticks.

        ``starts``: group id -> the position before which rows are read.
        """

        async def read(group: Group, part: ResultSelection) -> list[dict[str, Any]]:
            position = starts.get(group.id, 0)
            if isinstance(position, Since) or not position:
                return []
            lower = max(self._clock() - _first_range_ms(part), part.since + 1)
            rows = await self._streams.rows(group, part, lower, None, position)
            return latest_revisions(rows).to_pylist()  # type: ignore[no-any-return]

        by_group, _ = await _read_groups(selection, read)
        rows = [row for rows in by_group.values() for row in rows]
        return [((r["insight"], r["key"], r["ts"]), r["revision"]) for r in rows]

    async def starts(self, selection: ResultSelection) -> dict[str, Start]:
        """Return group id -> where new results start: the head of the group's stream of results.

        If the site of the stream is unreachable, the value is the current time instead.
        """
        now = Since(self._clock())
        heads, _ = await _read_groups(selection, lambda group, _: self._streams.head(group))
        return {group.id: heads.get(group, now) for group in selection.groups}

    async def _latest(
        self, group: Group, part: ResultSelection, start: int | None, end: int | None, limit: int
    ) -> list[dict[str, Any]]:
        results: list[dict[str, Any]] = []
        oldest = max(part.since + 1, start or 0)
        if end is not None and end < oldest:
            return []
        upper = end
        span = _first_range_ms(part)
        lower = (self._clock() if end is None else end) - span
        while len(results) < limit:
            lower = max(lower, oldest)
            rows = current_results(await self._streams.rows(group, part, lower, upper))
            results = [*part.visible(rows), *results]
            if lower <= oldest:
                break
            upper, span = lower - 1, span * GROWTH
            lower = upper - span
        return results[-limit:]


def _first_range_ms(selection: ResultSelection) -> int:
    return max(FIRST_TICKS * selection.every_ms, MIN_FIRST_MS)


async def _read_groups(
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
