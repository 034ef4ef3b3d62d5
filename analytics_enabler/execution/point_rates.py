"""The measured rates of streams of points, and how timely the points are."""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from analytics.plan.fragments import StreamLocation
from mistbow.client.agent import AsyncAgentClient
from mistbow.errors import MistbowError
from mistbow.streams.schemas import RAW

PATIENCE_S = 2.0
RATE_PERIOD_MS = 60_000
"""The period (ms) over which the rate of a stream is measured.

The period ends at the frontier, which is the time up to which the stream is complete.
"""


SAMPLE_ROWS = 2000
"""The number of points from which the shares and the entities of the metrics are estimated."""

MAX_UNSEEN = 0.1
"""The share of entities that a sample may lack, relative to those that it has."""


MIN_POINTS = 100
"""The number of points from which their timeliness is measured."""

TIMELINESS_STEP = 0.05
"""The smallest change of a timeliness that counts."""


@dataclass(frozen=True, slots=True)
class MetricRate:
    """The points per second of a metric at a site, and the entities that have points now.

    ``entities``: None: the last points are too few to determine the entities.
    """

    points_per_s: float
    entities: frozenset[str] | None = None


@dataclass(frozen=True, slots=True)
class _Sample:
    """The last points of a site: the share of a metric, and its entities."""

    share: float
    entities: frozenset[str] | None


def sampled_entities(counts: Mapping[str, int]) -> frozenset[str] | None:
    """Return the entities of a sample of points; None: it lacks more than ``MAX_UNSEEN`` of them.

    ``counts``: entity -> its points in the sample. The number of entities without a point follows
    from those with one and with two points (Chao, "Nonparametric estimation of the number of
    classes in a population", Scandinavian Journal of Statistics 1984).

    >>> sorted(sampled_entities({"a": 5, "b": 4}) or ())
    ['a', 'b']
    >>> sampled_entities({"a": 1, "b": 1, "c": 2})
    >>> sampled_entities({})
    """
    once, twice = (sum(count == number for count in counts.values()) for number in (1, 2))
    unseen = once * (once - 1) / (2 * (twice + 1))
    is_whole = bool(counts) and unseen <= MAX_UNSEEN * len(counts)
    return frozenset(counts) if is_whole else None


class Timeliness:
    """Measures the share of a stream's points that are not late, from two of its counters."""

    def __init__(self) -> None:
        self.share: float | None = None
        """The share, which follows the measurements in steps; None: not measured yet."""
        self._last: tuple[int, int] | None = None

    def read(self, head: int, late: int) -> None:
        """Add a reading: the number of points so far, and the number of late ones.

        >>> found = Timeliness()
        >>> for head, late in [(0, 0), (1000, 100), (2000, 210), (3000, 900)]:
        ...     found.read(head, late)
        ...     print(found.share)
        None
        0.9
        0.9
        0.31
        """
        if self._last is None or head < self._last[0] or late < self._last[1]:
            self._last = head, late
            return
        points = head - self._last[0]
        if points < MIN_POINTS:
            return
        share = round(1 - min((late - self._last[1]) / points, 1.0), 3)
        self._last = head, late
        if self.share is None or abs(share - self.share) >= TIMELINESS_STEP:
            self.share = share


class PointRates:
    """Measures the rates of streams by their numbers of rows, and the shares of the metrics."""

    def __init__(self, agent: AsyncAgentClient) -> None:
        self._agent = agent
        self._timeliness: dict[str, Timeliness] = {}

    @property
    def timeliness(self) -> Mapping[str, float]:
        """Site -> the share of its points that were not late, for the sites that are measured."""
        return {
            site: each.share for site, each in self._timeliness.items() if each.share is not None
        }

    async def measure(self, locations: Collection[StreamLocation]) -> dict[StreamLocation, float]:
        """Return stream -> rows per second; streams without a measurement are omitted."""
        rates = await asyncio.gather(*map(self._rate, locations))
        found = zip(locations, rates, strict=True)
        return {location: rate for location, rate in found if rate is not None}

    async def metric_rates(self, sites: Collection[str]) -> dict[tuple[str, str], MetricRate]:
        """Return (site, metric) -> the rate of its points in the stream of raw points.

        The last ``SAMPLE_ROWS`` points of each site determine the shares of the metrics. Sites
        without a measurement are omitted.
        """
        locations = [StreamLocation(site, RAW) for site in sites]
        totals, samples = await asyncio.gather(
            self.measure(locations), asyncio.gather(*map(self._samples, locations))
        )
        return {
            (location.site, metric): MetricRate(totals[location] * each.share, each.entities)
            for location, sample in zip(locations, samples, strict=True)
            if location in totals
            for metric, each in sample.items()
        }

    async def _samples(self, location: StreamLocation) -> dict[str, _Sample]:
        """Return metric -> its sample of the last points; empty: the site does not answer."""
        agent = self._agent.at(location.site)
        try:
            async with asyncio.timeout(PATIENCE_S):
                info = await agent.info(location.stream)
                self._timeliness.setdefault(location.site, Timeliness()).read(info.head, info.late)
                head = info.head
                start = max(head - SAMPLE_ROWS, 0)
                columns = ["metric", "entity"]
                read = await agent.read(location.stream, start, head, columns=columns)
        except (MistbowError, TimeoutError):
            return {}
        names = zip(*(read.table[column].to_pylist() for column in columns), strict=True)
        counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
        for metric, entity in names:
            counts[metric][entity] += 1
        return {
            metric: _Sample(of_metric.total() / read.table.num_rows, sampled_entities(of_metric))
            for metric, of_metric in counts.items()
        }

    async def _rate(self, location: StreamLocation) -> float | None:
        agent = self._agent.at(location.site)
        try:
            async with asyncio.timeout(PATIENCE_S):
                info = await agent.info(location.stream)
                if info.frontier < RATE_PERIOD_MS:
                    return None
                before = await agent.seek(location.stream, info.frontier - RATE_PERIOD_MS)
        except (MistbowError, TimeoutError):
            return None
        return (info.head - before) * 1000 / RATE_PERIOD_MS
