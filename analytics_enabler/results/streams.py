"""The results streams of groups, each at its own site."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import pyarrow as pa

from analytics_enabler.groups import Group
from analytics_enabler.results.selection import Selection
from mistbow.client.agent import AsyncAgentClient
from mistbow.errors import NotFoundError, UnavailableError
from mistbow.streams.schemas import RESULT_ROWS
from mistbow.streams.wire import Chunk

PATIENCE_S = 5.0

LAG_MS = 10_000
"""So much later than its tick a result may be computed: watermark, patience, clocks that differ."""


class AwayError(Exception):
    """A site cannot be reached now."""


@dataclass(frozen=True, slots=True)
class ResultStreams:
    """Reads results streams; of another site's agent raises ``AwayError`` where it is away."""

    agent: AsyncAgentClient

    async def head(self, group: Group) -> int:
        """Return the number that the next result will have; 0 where there is no stream yet."""
        async with _reaching(group):
            try:
                return (await self._at(group).info(group.results)).head
            except NotFoundError:
                return 0

    async def since(self, group: Group, time: int) -> int:
        """Return a number before which nothing was computed after a time, in ms."""
        async with _reaching(group):
            try:
                return await self._at(group).seek(group.results, time - LAG_MS)
            except NotFoundError:
                return 0

    async def rows(
        self,
        group: Group,
        selection: Selection,
        lower: int,
        upper: int | None,
        until_number: int | None = None,
    ) -> pa.Table:
        """Return rows with ``lower <= ts <= upper``, and numbers before ``until_number``."""
        async with _reaching(group):
            try:
                rows = await self._at(group).read(
                    group.results,
                    0,
                    until_number,
                    match=selection.match,
                    min_ts=lower,
                    max_ts=upper,
                )
            except NotFoundError:
                # Nothing has ever been computed.
                return RESULT_ROWS.empty_table()
            return rows.table

    def follow(self, group: Group, selection: Selection, start: int) -> AsyncGenerator[Chunk, None]:
        """Yield rows from a number on as they come."""
        return self._at(group).follow(
            group.results, start, match=selection.match, min_ts=selection.since + 1
        )

    def _at(self, group: Group) -> AsyncAgentClient:
        return self.agent if group.scope is None else self.agent.at(group.scope)


@asynccontextmanager
async def _reaching(group: Group) -> AsyncIterator[None]:
    # Without the agent of this site there is nothing to read at all: that is an error.
    if group.scope is None:
        yield
        return
    try:
        async with asyncio.timeout(PATIENCE_S):
            yield
    except (TimeoutError, UnavailableError) as error:
        raise AwayError(group.scope) from error
