"""Reading the latest results that stand, from the newest backwards, never all of history."""

from typing import Any

import pyarrow as pa

from analytics_enabler.results.selection import Selection
from mistbow.client.agent import AsyncAgentClient
from mistbow.clock import Clock
from mistbow.errors import NotFoundError
from mistbow.streams.results import settle, standing
from mistbow.streams.schemas import RESULT_ROWS, RESULTS

FIRST_TICKS = 64
GROWTH = 4


class ResultReader:
    """Reads the results stream of the storage agent."""

    def __init__(self, agent: AsyncAgentClient, clock: Clock) -> None:
        self._agent = agent
        self._clock = clock

    async def latest(
        self, selection: Selection, *, start: int | None, end: int | None, limit: int
    ) -> list[dict[str, Any]]:
        """Return the latest ``limit`` results with ``start <= ts <= end``, by time, as shown."""
        found: list[dict[str, Any]] = []
        oldest = max(selection.since + 1, start or 0)
        if end is not None and end < oldest:
            return []
        upper = end
        span = FIRST_TICKS * selection.every_ms
        lower = (self._clock() if end is None else end) - span
        while len(found) < limit:
            lower = max(lower, oldest)
            rows = standing(await self._rows(selection, lower, upper))
            found = [*selection.visible(rows), *found]
            if lower <= oldest:
                break
            upper, span = lower - 1, span * GROWTH
            lower = upper - span
        return [selection.shown(row) for row in found[-limit:]]

    async def revisions(
        self, selection: Selection, until_number: int
    ) -> list[tuple[tuple[str, str, int], int]]:
        """Return the newest ticks' (uid, key, ts) and revision, of rows below a number."""
        lower = max(self._clock() - FIRST_TICKS * selection.every_ms, selection.since + 1)
        rows = settle(await self._rows(selection, lower, None, until_number))
        return [((r["insight"], r["key"], r["ts"]), r["revision"]) for r in rows.to_pylist()]

    async def head(self) -> int:
        """Return the number that the next result will have; 0 where there is no stream yet."""
        try:
            return (await self._agent.info(RESULTS)).head
        except NotFoundError:
            return 0

    async def _rows(
        self, selection: Selection, lower: int, upper: int | None, until_number: int | None = None
    ) -> pa.Table:
        try:
            rows = await self._agent.read(
                RESULTS, 0, until_number, match=selection.match, min_ts=lower, max_ts=upper
            )
        except NotFoundError:
            # Nothing has ever been computed.
            return RESULT_ROWS.empty_table()
        return rows.table
