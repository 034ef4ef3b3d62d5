"""Reading the latest results that stand, from the newest backwards, never all of history."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from analytics_enabler.groups import Group
from analytics_enabler.results.positions import Since, Start
from analytics_enabler.results.selection import Selection
from analytics_enabler.results.streams import AwayError, ResultStreams
from mistbow.clock import Clock
from mistbow.streams.results import settle, standing

FIRST_TICKS = 64
GROWTH = 4

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Latest:
    """Results by time, as shown, and the sites that could not be reached."""

    rows: list[dict[str, Any]]
    missing_sites: list[str]


class ResultReader:
    """Reads the results streams that a selection lies in, all at once."""

    def __init__(self, streams: ResultStreams, clock: Clock) -> None:
        self._streams = streams
        self._clock = clock

    async def latest(
        self, selection: Selection, *, start: int | None, end: int | None, limit: int
    ) -> Latest:
        """Return the latest ``limit`` results with ``start <= ts <= end``."""

        async def read(group: Group, part: Selection) -> list[dict[str, Any]]:
            return await self._latest(group, part, start, end, limit)

        found, missing = await _gathered(selection, read)
        rows = sorted(
            (row for rows in found.values() for row in rows),
            key=lambda row: (row["ts"], row["insight"], row["key"]),
        )
        return Latest([selection.shown(row) for row in rows[-limit:]], missing)

    async def revisions(
        self, selection: Selection, starts: Mapping[str, Start]
    ) -> list[tuple[tuple[str, str, int], int]]:
        """Return the newest ticks' (uid, key, ts) and revision, of rows before some numbers."""

        async def read(group: Group, part: Selection) -> list[dict[str, Any]]:
            number = starts.get(group.id, 0)
            if isinstance(number, Since) or not number:
                return []
            lower = max(self._clock() - FIRST_TICKS * part.every_ms, part.since + 1)
            rows = await self._streams.rows(group, part, lower, None, number)
            return settle(rows).to_pylist()  # type: ignore[no-any-return]

        found, _ = await _gathered(selection, read)
        rows = [row for rows in found.values() for row in rows]
        return [((r["insight"], r["key"], r["ts"]), r["revision"]) for r in rows]

    async def starts(self, selection: Selection) -> dict[str, Start]:
        """Return, by group, where the results to come begin: of a site that is away, the time."""
        now = Since(self._clock())
        found, _ = await _gathered(selection, lambda group, _: self._streams.head(group))
        return {group.id: found.get(group, now) for group in selection.groups}

    async def _latest(
        self, group: Group, part: Selection, start: int | None, end: int | None, limit: int
    ) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        oldest = max(part.since + 1, start or 0)
        if end is not None and end < oldest:
            return []
        upper = end
        span = FIRST_TICKS * part.every_ms
        lower = (self._clock() if end is None else end) - span
        while len(found) < limit:
            lower = max(lower, oldest)
            rows = standing(await self._streams.rows(group, part, lower, upper))
            found = [*part.visible(rows), *found]
            if lower <= oldest:
                break
            upper, span = lower - 1, span * GROWTH
            lower = upper - span
        return found[-limit:]


async def _gathered(
    selection: Selection, read: Callable[[Group, Selection], Awaitable[T]]
) -> tuple[dict[Group, T], list[str]]:
    """Return what each group's stream gives, and the sites that could not be reached."""
    groups = selection.groups
    answers = await asyncio.gather(
        *(read(group, part) for group, part in groups.items()), return_exceptions=True
    )
    found: dict[Group, T] = {}
    missing: set[str] = set()
    for group, answer in zip(groups, answers, strict=True):
        if isinstance(answer, AwayError):
            missing.add(str(answer))
        elif isinstance(answer, BaseException):
            raise answer
        else:
            found[group] = answer
    return found, sorted(missing)
