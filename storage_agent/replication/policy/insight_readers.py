"""The insights that read this site's points, and the sites of their workers."""

from collections.abc import Iterator, Sequence

import msgspec

from mistbow.client.operation_model import SeriesFilter
from mistbow.clock import Clock
from storage_agent.membership.fabric_membership import FabricMembership
from storage_agent.replication.policy.view import InsightRead

_KEY = "insight/"


class _Reader(msgspec.Struct, frozen=True, omit_defaults=True):
    """A fragment that has a retention lease, and the metrics that the fragment reads.

    ``site``: the site from which the fragment reads. ``until``: the time at which the lease expires
    (ms since the epoch). ``metrics``: empty if the fragment reads all metrics.
    """

    site: str
    until: int
    metrics: tuple[str, ...] = ()


_READER = msgspec.json.Decoder(_Reader)


class InsightReaders:
    """Records the fragments that read this site's points as facts, which survive a restart."""

    def __init__(self, membership: FabricMembership, clock: Clock) -> None:
        self._membership = membership
        self._clock = clock

    def record(self, holder: str, site: str, for_ms: int, metrics: Sequence[str]) -> None:
        """Record that the fragment ``holder`` at the site ``site`` reads points of ``metrics``.

        The record expires after ``for_ms``. If ``metrics`` is empty, the fragment reads all
        metrics.
        """
        until = self._clock() + for_ms
        reader = _Reader(site, until, tuple(sorted(set(metrics))))
        self._membership.publish(_KEY + holder, reader)

    def current(self) -> Iterator[InsightRead]:
        """Yield the series that each fragment with a valid lease reads; remove expired leases."""
        now = self._clock()
        facts = self._membership.facts_of(self._membership.site)
        for key in facts.with_prefix(_KEY):
            reader = _READER.decode(facts[key])
            if reader.until < now:
                self._membership.publish(key, None)
            else:
                series_filter = SeriesFilter(metric=reader.metrics)
                yield InsightRead(key.removeprefix(_KEY), reader.site, series_filter)
