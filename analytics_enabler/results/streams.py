"""The result streams of groups; each stream is stored at the site of its group."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from analytics_enabler.groups import Group
from analytics_enabler.results.cursor import Since
from analytics_enabler.results.selection import ResultSelection
from mistbow.client.agent import AsyncAgentClient
from mistbow.errors import NotFoundError, UnavailableError
from mistbow.streams.schemas import RESULT_ROWS
from mistbow.streams.wire import Chunk, Position

PATIENCE_S = 5.0

LAG_MS = 10_000
"""The usual maximum time (ms) from a tick to the computation of the results at this tick."""

MAX_LAG_MS = 300_000
"""The maximum time (ms) from a tick to the computation of results that a resumed client receives.

Results lag by more than ``LAG_MS`` after restarts, under overload, and behind a slow site.
"""

MAX_READ_BYTES = 64 * 2**20
"""The maximum size (in Arrow) of the rows of one read."""


class TooManyRowsError(Exception):
    """The error that the rows of one read take more than ``MAX_READ_BYTES``."""


class SiteUnreachableError(Exception):
    """The error that a site does not answer; the message is the name of the site."""


@dataclass(frozen=True, slots=True)
class ResultStreams:
    """Reads streams of results; raises ``SiteUnreachableError`` if another site is unreachable.

    ``own_site``: returns the site of ``agent``; empty: not known yet.
    """

    agent: AsyncAgentClient
    own_site: Callable[[], str]

    async def end(self, group: Group) -> Position:
        """Return the end of the group's stream of results; 0 if the stream does not exist."""
        async with _as_unreachable_site(group):
            try:
                info = await self._at(group).info(group.results)
            except NotFoundError:
                return Position(0, 0)
            return Position(info.head, info.frontier)

    async def frontier(self, group: Group) -> int:
        """Return the frontier of the group's results (ms); 0 if the stream does not exist."""
        try:
            return max((await self._at(group).info(group.results)).frontier, 0)
        except NotFoundError:
            return 0

    async def since(self, group: Group, time: int) -> int:
        """Return a position such that all earlier rows were computed before ``time`` (ms).

        If the stream does not exist, the position is 0.
        """
        async with _as_unreachable_site(group):
            try:
                return await self._at(group).seek(group.results, time - LAG_MS)
            except NotFoundError:
                return 0

    async def rows(
        self,
        group: Group,
        selection: ResultSelection,
        lower: int,
        upper: int | None,
        end: int,
    ) -> pa.Table:
        """Return the stored rows with ``lower <= ts <= upper`` at positions below ``end``.

        ``upper``: None: no bound. ``end``: at most the head. Raises ``TooManyRowsError`` for too
        many rows.
        """
        return await self._read(group, selection, 0, end, lower, upper)

    async def computed_since(
        self, group: Group, selection: ResultSelection, since: Since
    ) -> pa.Table:
        """Return the stored rows that were computed since a time, and possibly earlier rows.

        Raises ``TooManyRowsError`` for too many rows.
        """
        start = await self.since(group, since.time - MAX_LAG_MS)
        end = await self.end(group)
        rows = await self._read(group, selection, start, end.next, selection.since + 1, None)
        return rows.filter(pc.greater_equal(rows["computed_at"], since.time - LAG_MS))

    def follow(
        self, group: Group, selection: ResultSelection, start: int
    ) -> AsyncGenerator[Chunk, None]:
        """Yield chunks of the rows from position ``start`` on, and then of new rows."""
        return self._at(group).follow(
            group.results, start, match=selection.match, min_ts=selection.since + 1
        )

    async def _read(
        self,
        group: Group,
        selection: ResultSelection,
        start: int,
        end: int,
        lower: int,
        upper: int | None,
    ) -> pa.Table:
        batches: list[pa.RecordBatch] = []
        size = 0
        if end <= start:
            return RESULT_ROWS.empty_table()
        async with _as_unreachable_site(group):
            chunks = self._at(group).chunks(
                group.results, start, end, match=selection.match, min_ts=lower, max_ts=upper
            )
            try:
                async with aclosing(chunks):
                    async for chunk in chunks:
                        batches.append(chunk.rows)
                        size += chunk.rows.nbytes
                        if size > MAX_READ_BYTES:
                            raise TooManyRowsError
            except NotFoundError:
                # The stream was deleted after its head was read.
                return RESULT_ROWS.empty_table()
        return pa.Table.from_batches(batches)

    def _at(self, group: Group) -> AsyncAgentClient:
        return self.agent if group.scope is None else self.agent.at(group.scope)


@asynccontextmanager
async def _as_unreachable_site(group: Group) -> AsyncIterator[None]:
    # If the agent of the own site does not answer, nothing can be read: its error is not converted.
    if group.scope is None:
        yield
        return
    try:
        async with asyncio.timeout(PATIENCE_S):
            yield
    except (TimeoutError, UnavailableError) as error:
        raise SiteUnreachableError(group.scope) from error
