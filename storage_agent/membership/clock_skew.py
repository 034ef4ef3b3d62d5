"""Clock skew: the differences between this agent's clock and the clocks of its peers.

The answer to a heartbeat contains the peer's time. If the two ways of a round trip take equally
long, the peer answered in the middle of the round trip; so the error is at most half of the round
trip (Cristian, "Probabilistic clock synchronization", 1989).
"""

import statistics
from collections import deque

from mistbow.clock import Clock
from mistbow.telemetry import get_logger
from storage_agent import metrics

log = get_logger(__name__)

_SAMPLES = 5


class ClockSkew:
    """Measures the skew of each peer's clock, and reports skews above a limit.

    ``max_skew_ms``: the limit. A skew is reported only if it exceeds the limit by more than the
    error of its measurement.
    """

    def __init__(self, clock: Clock, max_skew_ms: int) -> None:
        self._clock = clock
        self._max_skew_ms = max_skew_ms
        self._samples: dict[str, deque[tuple[float, float]]] = {}
        self._reported: set[str] = set()

    def record(self, site: str, peer_time: int, trip_ms: float) -> None:
        """Record the time (ms) in the answer of a peer, which came after a round trip."""
        error = trip_ms / 2
        skew = peer_time - (self._clock() - error)
        self._samples.setdefault(site, deque(maxlen=_SAMPLES)).append((skew, error))
        metrics.CLOCK_SKEW.labels(site).set(self.of(site) / 1000)
        metrics.CLOCK_SKEW_ERROR.labels(site).set(self.error_of(site) / 1000)
        self._report(site)

    def of(self, site: str) -> float:
        """Return the skew (ms) of a peer's clock; above 0: the peer's clock is ahead."""
        return statistics.median(skew for skew, _ in self._samples[site])

    def error_of(self, site: str) -> float:
        """Return the largest possible error (ms) of the skew that ``of`` returns.

        The true skew differs from each sample by at most the error of this sample.
        """
        skew = self.of(site)
        return min(abs(skew - each) + error for each, error in self._samples[site])

    def forget(self, site: str) -> None:
        """Forget a peer that is gone."""
        if self._samples.pop(site, None) is not None:
            metrics.CLOCK_SKEW.remove(site)
            metrics.CLOCK_SKEW_ERROR.remove(site)
        self._reported.discard(site)

    @property
    def problems(self) -> list[str]:
        """Messages about the peers whose clocks differ too much, with the remedy."""
        return [
            f"the clock of the site {site} is {abs(self.of(site)) / 1000:.1f} s "
            f"{'ahead of' if self.of(site) > 0 else 'behind'} this one, so points of one of them "
            "are late, or wait as future points: synchronize both clocks (NTP)"
            for site in sorted(self._reported)
        ]

    def _report(self, site: str) -> None:
        samples = self._samples[site]
        is_skewed = len(samples) == _SAMPLES and all(
            abs(skew) - error > self._max_skew_ms for skew, error in samples
        )
        is_fine = all(abs(skew) <= self._max_skew_ms for skew, _ in samples)
        if is_skewed and site not in self._reported:
            self._reported.add(site)
            log.warning("clock_skew_found", site=site, skew_ms=round(self.of(site)))
        elif is_fine and site in self._reported:
            self._reported.discard(site)
            log.info("clock_skew_ended", site=site, skew_ms=round(self.of(site)))
