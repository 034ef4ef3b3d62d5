"""Which series there are: for warnings about metrics that are not, and to expect traffic.

And what columns streams have that insights read.
"""

import asyncio
from collections.abc import Collection

import pyarrow as pa

from analytics_enabler.landscape import Landscape
from analytics_enabler.placing.traffic import Series
from analytics_enabler.semantics import Named, Schemas
from mistbow.client.agent import AsyncAgentClient
from mistbow.clock import Clock
from mistbow.errors import MistbowError, NotFoundError

FRESH_MS = 5_000
PATIENCE_S = 2.0
MOST_STREAMS = 100
"""No more are asked for their columns; those of others are not known then."""


class Catalogue:
    """The series that points have come of, at any site; asked for at most once in five seconds."""

    def __init__(self, agent: AsyncAgentClient, landscape: Landscape, clock: Clock) -> None:
        self._agent = agent
        self._landscape = landscape
        self._clock = clock
        self._lock = asyncio.Lock()
        self._series: tuple[Series, ...] | None = None
        self._asked_at: int | None = None

    async def metrics(self) -> frozenset[str] | None:
        """Return the names of all metrics, or None when the storage agent cannot tell."""
        series = await self.series()
        return None if series is None else frozenset(one.metric for one in series)

    async def series(self) -> tuple[Series, ...] | None:
        """Return all series, or None when the storage agent cannot tell."""
        async with self._lock:
            now = self._clock()
            if self._asked_at is None or now - self._asked_at >= FRESH_MS:
                self._series = await self._ask()
                self._asked_at = now
            return self._series

    async def schemas(self, streams: Collection[Named]) -> Schemas:
        """Return the columns of streams, those that can be told within some seconds."""
        asked = sorted(streams, key=lambda named: (named[0] or "", named[1]))[:MOST_STREAMS]
        answers = await asyncio.gather(*(self._schema(named) for named in asked))
        return {named: schema for named, told, schema in answers if told}

    async def _schema(self, named: Named) -> tuple[Named, bool, pa.Schema | None]:
        site, stream = named
        try:
            async with asyncio.timeout(PATIENCE_S):
                there = self._agent if site is None else self._agent.at(site)
                return named, True, (await there.read(stream, 0, 0)).table.schema
        except NotFoundError:
            return named, True, None
        except (MistbowError, TimeoutError):
            return named, False, None

    async def _ask(self) -> tuple[Series, ...] | None:
        try:
            async with asyncio.timeout(PATIENCE_S):
                answer = await self._agent.get(nodes=[])
        except (MistbowError, TimeoutError):
            return None
        site_of = self._landscape.site_of_node
        return tuple(
            Series(site_of.get(node.node, node.node), series.metric, series.entity)
            for node in answer
            for series in node.data
        )
