"""The data catalogue: the series at all sites, and the columns of streams.

The series are used to warn about unknown metrics and to estimate traffic. The columns are used to
check insights that read streams.
"""

import asyncio
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

import pyarrow as pa

from analytics_enabler.fabric_view import FabricView
from analytics_enabler.semantics import Schemas, StreamName
from mistbow.client.agent import AsyncAgentClient
from mistbow.client.agent_model import NodeData
from mistbow.clock import Clock, monotonic_clock
from mistbow.errors import MistbowError, NotFoundError

MAX_AGE_MS = 5_000
PATIENCE_S = 2.0
"""The time (s) within which the storage agent must send a page of series, or a schema."""

PAGE = 50_000
"""The number of series in a page; decoding a page occupies the event loop for about 50 ms."""

SLICE = 1000
"""The number of series that are indexed before other tasks may run."""

MAX_STREAMS = 100
"""The maximum number of streams whose columns are read for one text."""


@dataclass(frozen=True, slots=True)
class SeriesLocation:
    """A series, and the site that stores its points."""

    site: str
    metric: str
    entity: str


SiteMetric = tuple[str, str]
"""The name of a site, and of a metric at this site."""


class SeriesIndex:
    """The series of several sites, by site and metric.

    Counting the series of a metric takes the same time for any number of series.

    >>> series = [SeriesLocation("edge", metric, "a") for metric in ("cpu", "mem")]
    >>> index = SeriesIndex(series)
    >>> len(index), len(index.at({"cloud"})), index.count("cpu", {"a", "b"})
    (2, 0, {('edge', 'cpu'): 1})
    """

    def __init__(self, series: Iterable[SeriesLocation] = ()) -> None:
        entities: defaultdict[SiteMetric, set[str]] = defaultdict(set)
        for one in series:
            entities[one.site, one.metric].add(one.entity)
        self._set(entities)

    def _set(self, entities: Mapping[SiteMetric, Collection[str]]) -> None:
        self._entities = entities
        self._sites: dict[str, list[str]] = {}
        for site, metric in entities:
            self._sites.setdefault(metric, []).append(site)
        self._size = sum(map(len, entities.values()))

    @classmethod
    def of_entities(cls, entities: Mapping[SiteMetric, Collection[str]]) -> "SeriesIndex":
        """Return the index of series; ``entities``: site and metric -> the entities."""
        index = cls()
        index._set(entities)
        return index

    @classmethod
    def of(cls, series: "AnySeries") -> "SeriesIndex":
        """Return the index of series, or the index itself."""
        return series if isinstance(series, SeriesIndex) else cls(series)

    def __len__(self) -> int:
        return self._size

    @property
    def metrics(self) -> frozenset[str]:
        """The names of all metrics."""
        return frozenset(self._sites)

    @property
    def counts(self) -> dict[SiteMetric, int]:
        """Site and metric -> the number of series."""
        return {key: len(entities) for key, entities in self._entities.items()}

    def at(self, sites: Collection[str]) -> "SeriesIndex":
        """Return the index of the series at some sites."""
        return SeriesIndex.of_entities(
            {key: each for key, each in self._entities.items() if key[0] in sites}
        )

    def restricted(self, entities: Mapping[SiteMetric, Collection[str]]) -> "SeriesIndex":
        """Return the index of the series of these entities.

        Sites and metrics without such a series keep all their series.

        >>> index = SeriesIndex([SeriesLocation("edge", "cpu", entity) for entity in "abc"])
        >>> len(index.restricted({("edge", "cpu"): {"a", "b", "z"}}))
        2
        >>> len(index.restricted({("edge", "cpu"): {"z"}}))
        3
        """
        return SeriesIndex.of_entities(
            {
                key: set(stored).intersection(entities.get(key, stored)) or stored
                for key, stored in self._entities.items()
            }
        )

    def count(self, metric: str, entities: Collection[str] = ()) -> dict[SiteMetric, int]:
        """Return the number of series of a metric, of some entities or of all.

        Sites without such a series are omitted.
        """
        found: dict[SiteMetric, int] = {}
        for site in self._sites.get(metric, ()):
            stored = self._entities[site, metric]
            number = sum(each in stored for each in set(entities)) if entities else len(stored)
            if number:
                found[site, metric] = number
        return found


AnySeries = Iterable[SeriesLocation] | SeriesIndex


class DataCatalogue:
    """The series at all sites, cached for ``MAX_AGE_MS``, and the columns of streams."""

    def __init__(
        self,
        agent: AsyncAgentClient,
        fabric_view: FabricView,
        clock: Clock = monotonic_clock,
    ) -> None:
        self._agent = agent
        self._fabric_view = fabric_view
        self._clock = clock
        self._lock = asyncio.Lock()
        self._nodes: list[NodeData] | None = None
        self._nodes_read_at: int | None = None
        self._series: SeriesIndex | None = None
        self._known_series: SeriesIndex | None = None
        self._read_at: int | None = None
        self._units: Mapping[str, str] = {}

    async def metrics(self) -> frozenset[str] | None:
        """Return the names of all metrics; None if the storage agent does not answer."""
        series = await self.series()
        return None if series is None else series.metrics

    async def series(self) -> SeriesIndex | None:
        """Return all series; None if the storage agent does not answer."""
        async with self._lock:
            now = self._clock()
            if self._read_at is None or now - self._read_at >= MAX_AGE_MS:
                self._series = await self._read_series()
                if self._series is not None:
                    self._known_series = self._series
                # After the read: callers that waited for the read must not read again.
                self._read_at = self._clock()
            return self._series

    @property
    def known_series(self) -> SeriesIndex | None:
        """The series that were read last, whatever their age; None: not read yet."""
        return self._known_series

    @property
    def known_units(self) -> Mapping[str, str]:
        """Metric -> unit, as read with the last series; metrics with several units are omitted."""
        return self._units

    async def nodes(self) -> list[NodeData] | None:
        """Return the series of all nodes with their metadata and latest points.

        None if the storage agent does not answer. A node that does not answer has the reason.
        """
        async with self._lock:
            now = self._clock()
            if self._nodes_read_at is None or now - self._nodes_read_at >= MAX_AGE_MS:
                self._nodes = await self._read_nodes()
                self._nodes_read_at = self._clock()
            return self._nodes

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

    async def _read_nodes(self) -> list[NodeData] | None:
        try:
            async with asyncio.timeout(PATIENCE_S):
                return await self._agent.get(nodes=[])
        except (MistbowError, TimeoutError):
            return None

    async def _read_series(self) -> SeriesIndex | None:
        site_of = self._fabric_view.site_of_node
        found: defaultdict[SiteMetric, set[str]] = defaultdict(set)
        units: defaultdict[str, set[str]] = defaultdict(set)
        pages = self._agent.iterate_series(nodes=[], fields=["units"], limit=PAGE)
        clock, number = asyncio.get_running_loop().time, 0
        try:
            async with asyncio.timeout(PATIENCE_S) as patience:
                async for series in pages:
                    node = series["node"]
                    found[site_of.get(node, node), series["metricID"]].add(series["entityID"])
                    if series.get("units"):
                        units[series["metricID"]].add(series["units"])
                    number += 1
                    if number % SLICE == 0:
                        await asyncio.sleep(0)
                        patience.reschedule(clock() + PATIENCE_S)
        except (MistbowError, TimeoutError):
            return None
        self._units = {name: min(each) for name, each in units.items() if len(each) == 1}
        return SeriesIndex.of_entities(found)
