"""Counts of reads for each pair of a requesting site and a filter."""

from collections.abc import Iterator
from heapq import nsmallest

import msgspec

from mistbow.client.fields import Names
from mistbow.client.operation_model import SeriesFilter
from mistbow.clock import Clock
from storage_agent.decay import DecayingCount
from storage_agent.http.points import GetBody
from storage_agent.replication.filters import canonical_text
from storage_agent.timeseries.catalogue import Catalogue
from storage_agent.timeseries.point_queries import name_set, select_series

HALF_LIFE_MS = 60_000
_MAX_COUNTS = 1000
_MAX_NAME_LENGTH = 512
_MAX_NAMES = 100
"""The maximum number of metrics in the filter of a read; likewise of entities and of groups.

A read that names more metrics is counted as a read of all metrics.
"""


class ReadCounts:
    """Counts the reads of this site's points, for each pair of a requesting site and a filter.

    The counts decay with the half-life ``HALF_LIFE_MS``.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._counts: dict[tuple[str, str], DecayingCount] = {}

    def count(self, by: str, series_filter: SeriesFilter) -> None:
        """Count a read, by the site ``by``, of the points that match a filter."""
        key = (by, canonical_text(series_filter))
        now = self._clock()
        if key not in self._counts and len(self._counts) >= _MAX_COUNTS:
            # Several at once: finding the least counts takes longer than the rest of a read.
            for rare in nsmallest(
                _MAX_COUNTS // 10,
                self._counts,
                key=lambda key: self._counts[key].now(now, HALF_LIFE_MS),
            ):
                del self._counts[rare]
        self._counts[key] = self._counts.get(key, DecayingCount()).plus(1.0, now, HALF_LIFE_MS)

    def per_minute(self) -> Iterator[tuple[str, SeriesFilter, float]]:
        """Yield (requesting site, filter, reads per minute) for each count."""
        now = self._clock()
        for (by, text), count in sorted(self._counts.items()):
            series_filter = msgspec.json.decode(text, type=SeriesFilter)
            yield by, series_filter, count.per_minute(now, HALF_LIFE_MS)


async def requested_filter(body: GetBody, catalogue: Catalogue) -> SeriesFilter | None:
    """Return a filter of points that includes the points which a /get selects.

    A copy has no filter by types of entities, pods and containers. In place of such a filter, the
    returned filter has the entities that the selected series have at present. Returns None if the
    /get selects no series, or if only a filter of all points would do.
    """
    named = SeriesFilter(
        metric=_bounded_names(body.metricID),
        entity=_bounded_names(body.entityID),
        group=_bounded_names(body.groupName),
    )
    others = (body.entityType, body.podName, body.podNamespace, body.containerName)
    if not any(map(name_set, others)):
        return named
    entities = (await select_series(catalogue, body)).entity_names()
    if not entities:
        return None
    if len(entities) <= _MAX_NAMES:
        return msgspec.structs.replace(named, entity=tuple(sorted(entities)))
    return None if named.all else named


def _bounded_names(values: Names) -> tuple[str, ...]:
    # A /get may contain names that no series can have.
    names = sorted(name for name in name_set(values) if 1 <= len(name) <= _MAX_NAME_LENGTH)
    return tuple(names) if len(names) <= _MAX_NAMES else ()
