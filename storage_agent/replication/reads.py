"""Who reads what, and how often."""

from collections.abc import Iterator
from heapq import nsmallest

import msgspec

from mistbow.clock import Clock
from storage_agent.monitoring.bodies import GetBody, Some
from storage_agent.monitoring.extraction import choice_of
from storage_agent.replication.decaying import Decaying
from storage_agent.replication.filters import SeriesFilter, text_of

HALF_LIFE_MS = 60_000
_MOST = 1000
_MOST_NAME = 512
_MOST_NAMED = 100
"""A read that names more metrics, entities or groups counts as one of any of them."""


class Reads:
    """Counts reads by the site that asks and the filter that it asks by."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._counts: dict[tuple[str, str], Decaying] = {}

    def count(self, by: str, wanted: SeriesFilter) -> None:
        """Take note of a read."""
        key = (by, text_of(wanted))
        now = self._clock()
        if key not in self._counts and len(self._counts) >= _MOST:
            # Several at once: looking for them takes longer than all else that a read does.
            for least in nsmallest(_MOST // 10, self._counts, key=lambda it: self._left(it, now)):
                del self._counts[least]
        self._counts[key] = self._counts.get(key, Decaying()).plus(1.0, now, HALF_LIFE_MS)

    def per_minute(self) -> Iterator[tuple[str, SeriesFilter, float]]:
        """Yield by whom and by which filter something is read, and how often."""
        now = self._clock()
        for (by, text), count in sorted(self._counts.items()):
            wanted = msgspec.json.decode(text, type=SeriesFilter)
            yield by, wanted, count.per_minute(now, HALF_LIFE_MS)

    def _left(self, key: tuple[str, str], now: int) -> float:
        return self._counts[key].now(now, HALF_LIFE_MS)


def asked_by(body: GetBody) -> SeriesFilter:
    """Return the filter that a /get asks by; what a copy cannot tell apart is left out."""
    return SeriesFilter(
        metric=_few(body.metricID), entity=_few(body.entityID), group=_few(body.groupName)
    )


def _few(values: Some) -> tuple[str, ...]:
    # A /get may ask for names that no series can have.
    choice = sorted(name for name in choice_of(values) if 1 <= len(name) <= _MOST_NAME)
    return tuple(choice) if len(choice) <= _MOST_NAMED else ()
