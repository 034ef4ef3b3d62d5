"""The data catalogue: the series at all sites, and the columns of streams.

The series are used to warn about unknown metrics and to estimate traffic. The columns are used to
check insights that read streams.
"""

import asyncio
from collections.abc import Collection
from dataclasses import dataclass

import pyarrow as pa

from analytics_enabler.fabric_view import FabricView
from analytics_enabler.semantics import Schemas, StreamName
from mistbow.client.agent import AsyncAgentClient
from mistbow.clock import Clock
from mistbow.errors import MistbowError, NotFoundError

MAX_AGE_MS = 5_000
PATIENCE_S = 2.0
MAX_STREAMS = 100
"""The maximum number of streams whose columns are read for one text."""


@dataclass(frozen=True, slots=True)
class SeriesLocation:
    """A series, and the site that stores its points."""

    site: str
    metric: str
    entity: str


class DataCatalogue:
    """The series at all sites, cached for ``MAX_AGE_MS``, and the columns of streams."""

    def __init__(self, agent: AsyncAgentClient, fabric_view: FabricView, clock: Clock) -> None:
        self._agent = agent
        self._fabric_view = fabric_view
        self._clock = clock
        self._lock = asyncio.Lock()
        self._series: tuple[SeriesLocation, ...] | None = None
        self._read_at: int | None = None

    async def metrics(self) -> frozenset[str] | None:
        """Return the names of all metrics; None if the storage agent does not answer."""
        series = await self.series()
        return None if series is None else frozenset(one.metric for one in series)

    async def series(self) -> tuple[SeriesLocation, ...] | None:
        """Return all series; None if the storage agent does not answer."""
        async with self._lock:
            now = self._clock()
            if self._read_at is None or now - self._read_at >= MAX_AGE_MS:
                self._series = await self._read_series()
                self._read_at = now
            return self._series

    async def schemas(self, streams: Collection[StreamName]) -> Schemas:
        """Return stream -> schema; the schema is None if the stream does not exist.

        A stream is omitted if its site does not answer within ``PATIENCE_S``. At most
        ``MAX_STREAMS`` streams are read; further streams are omitted.
        """
        read = sorted(streams, key=lambda named: (named[0] or "", named[1]))[:MAX_STREAMS]
        answers = await asyncio.gather(*(self._read_schema(named) for named in read))
        return {named: schema for named, answered, schema in answers if answered}

    async def _read_schema(self, named: StreamName) -> tuple[StreamName, bool, pa.Schema | None]:
        """Return (``named``, whether the site answered, the schema of the stream).

        The schema is None if the stream does not exist or the site did not answer.
        """
        site, stream = named
        try:
            async with asyncio.timeout(PATIENCE_S):
                agent = self._agent if site is None else self._agent.at(site)
                return named, True, (await agent.read(stream, 0, 0)).table.schema
        except NotFoundError:
            return named, True, None
        except (MistbowError, TimeoutError):
            return named, False, None

    async def _read_series(self) -> tuple[SeriesLocation, ...] | None:
        try:
            async with asyncio.timeout(PATIENCE_S):
                nodes = await self._agent.get(nodes=[])
        except (MistbowError, TimeoutError):
            return None
        site_of = self._fabric_view.site_of_node
        return tuple(
            SeriesLocation(site_of.get(node.node, node.node), series.metric, series.entity)
            for node in nodes
            for series in node.data
        )
