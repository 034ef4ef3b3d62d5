"""The retention leases of a worker: agents retain the rows that the worker's fragments need."""

import time
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from analytics.plan.feeds import Feed
from analytics.plan.fragments import Fragment, Merge, Partial, StreamLocation, Whole
from analytics_worker.panes.routing import metrics_needed
from analytics_worker.stateful.accumulators import accumulators_of
from analytics_worker.stateful.state_stream import snapshot_ms
from mistbow.client.agent import AgentClient
from mistbow.client.fields import MAX_RETAIN_MS
from mistbow.errors import MistbowError
from mistbow.streams.schemas import states_stream
from mistbow.telemetry import get_logger

log = get_logger(__name__)

_RENEWAL_S = 600.0
_EXPIRY_MS = 3_600_000
_MAX_METRICS = 1000
_MAX_METRIC_LENGTH = 512
_SPARE_MS = 600_000
"""The period (ms) that is added to the lookback of windows, since a query reads earlier rows after
a restart or a lost connection.
"""


class _LeaseTerms(NamedTuple):
    """The terms of a lease: the agent retains the rows of ``metrics`` for ``retain_ms``."""

    retain_ms: int
    metrics: tuple[str, ...]


class RetentionLeases:
    """Requests a retention lease for each stream that the worker's fragments read.

    ``fragments``: a function that returns these fragments.
    """

    def __init__(self, agent: AgentClient, fragments: Callable[[], Iterable[Fragment]]) -> None:
        self._agent = agent
        self._fragments = fragments
        self._leases: dict[tuple[str, StreamLocation], tuple[_LeaseTerms, float]] = {}
        self._failures: dict[tuple[str, StreamLocation], str] = {}

    def renew(self) -> None:
        """Request missing leases and renew expiring leases; the next call retries failures."""
        now = time.monotonic()
        needed = {
            (fragment.id, location): _LeaseTerms(retain_ms, metrics_of(fragment))
            for fragment in self._fragments()
            for location, retain_ms in retention_needs(fragment)
        }
        self._leases = {key: lease for key, lease in self._leases.items() if key in needed}
        self._failures = {key: why for key, why in self._failures.items() if key in needed}
        for (holder, location), terms in needed.items():
            lease = self._leases.get((holder, location))
            if lease is not None and lease[0] == terms and now - lease[1] < _RENEWAL_S:
                continue
            try:
                self._agent.at(location.site).retain(
                    location.stream, holder, terms.retain_ms, _EXPIRY_MS, terms.metrics
                )
            except MistbowError as error:
                self._note_failure(holder, location, error.message)
                continue
            self._leases[holder, location] = (terms, now)
            self._failures.pop((holder, location), None)

    def _note_failure(self, holder: str, location: StreamLocation, reason: str) -> None:
        """Log a failure, unless the last request for this lease has failed for the same reason."""
        if self._failures.get((holder, location)) != reason:
            self._failures[holder, location] = reason
            log.info(
                "retention_lease_failed", stream=location.stream, site=location.site, reason=reason
            )


def metrics_of(fragment: Fragment) -> tuple[str, ...]:
    """Return the metrics whose points a fragment reads from an agent's storage.

    The tuple is empty for a merge, for a feed, and if the metrics are too many for a lease. The
    agent uses the metrics only to decide which rows to replicate.
    """
    match fragment:
        case Merge():
            return ()
        case Whole(source=StreamLocation(feed=Feed())):
            return ()
        case Partial(panes=panes):
            needed = metrics_needed(panes)
        case _:
            needed = metrics_needed(fragment.plan.panes)
    # No point has a metric with a longer name.
    metrics = tuple(metric for metric in needed if len(metric) <= _MAX_METRIC_LENGTH)
    return metrics if len(metrics) <= _MAX_METRICS else ()


def retention_needs(fragment: Fragment) -> Iterator[tuple[StreamLocation, int]]:
    """Yield (stream that a fragment reads, period in ms for which the fragment needs the rows)."""
    if not isinstance(fragment, Partial):
        yield from _state_needs(fragment)
    match fragment:
        case Merge(plan=plan):
            for source in fragment.sources:
                yield source, plan.lookback_ms + _SPARE_MS
        case Partial():
            yield fragment.source, fragment.lookback_ms + _SPARE_MS
        case _:
            yield fragment.source, fragment.plan.lookback_ms + _SPARE_MS


def _state_needs(fragment: Whole | Merge) -> Iterator[tuple[StreamLocation, int]]:
    spans = [snapshot_ms(each.window.every_ms) for each in accumulators_of(fragment.plan)]
    if spans:
        location = StreamLocation(fragment.target.site, states_stream(fragment.target.stream))
        # Two spans contain at least one complete snapshot.
        yield location, min(2 * max(spans) + _SPARE_MS, MAX_RETAIN_MS)
