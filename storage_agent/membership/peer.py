"""The agent of another site, as this agent observes it."""

import statistics
from collections import deque
from dataclasses import dataclass, field

from mistbow.failure_detector import FailureDetector

_SAMPLES = 5
_LOSS_WINDOW = 60
"""The number of heartbeats over which the loss of a link is measured."""

_MIN_HEARTBEATS = 10
_MAX_REPORTERS = 16


@dataclass(slots=True)
class Peer:
    """The agent of another site.

    ``detector``: detects from the answers to heartbeats whether the peer has failed. ``instance``:
    the id of the peer's process; None before the first answer. ``address``: the address at which
    the peer answers; None while the peer does not answer. ``answered_at``: the time of the last
    answer (ms since the epoch). ``linked_sites``: the sites to which the peer has direct links,
    according to its last reports; empty for peers that are not linked. ``reach``: the sites at
    which the peer has rights, as its identity proves; None: all sites, or the peer has no identity.
    ``suspected``: whether the peer has stopped answering, but is not considered dead yet.
    ``samples``: the last latencies (ms). ``heartbeats``: whether the last heartbeats to the peer
    were answered. ``bandwidth_mbps``: the bandwidth of the direct link (Mbit/s); None: not measured
    yet. ``restarts`` and ``losses``: how often the peer has restarted and how often it has stopped
    answering, since this agent started. ``version``: the version of the peer's reports that this
    agent has. ``acknowledged``: the version of this agent's reports that the peer has.
    ``contacted``: the round in which this agent last sent a heartbeat to the peer. ``is_regular``:
    whether it also sent one in the round before. ``is_awaited``: whether the last one is
    unanswered. ``reported_urls``: reporting site -> the URL of the peer that it reports.
    """

    site: str
    node: str
    url: str
    detector: FailureDetector
    instance: str | None = None
    address: str | None = None
    answered_at: int | None = None
    linked_sites: frozenset[str] = frozenset()
    reach: frozenset[str] | None = None
    suspected: bool = False
    samples: deque[float] = field(default_factory=lambda: deque(maxlen=_SAMPLES))
    heartbeats: deque[bool] = field(default_factory=lambda: deque(maxlen=_LOSS_WINDOW))
    bandwidth_mbps: float | None = None
    restarts: int = 0
    losses: int = 0
    version: int = 0
    acknowledged: int = 0
    contacted: int = 0
    is_regular: bool = False
    is_awaited: bool = False
    reported_urls: dict[str, str] = field(default_factory=dict)

    @property
    def proxied_sites(self) -> frozenset[str]:
        """The sites for which the peer can proxy requests: it reports a link, and has rights there.

        A stolen peer may report any link.
        """
        return self.linked_sites if self.reach is None else self.linked_sites & self.reach

    def record_report(self, reporter: str, url: str | None) -> None:
        """Record the URL at which another site reaches the peer; None: it does not reach the peer.

        A stolen site may report any URL. So a report never replaces ``url``, nor the reports of
        other sites.
        """
        self.reported_urls.pop(reporter, None)
        if url is not None:
            if len(self.reported_urls) >= _MAX_REPORTERS:
                known = (one for one, each in self.reported_urls.items() if each == self.url)
                del self.reported_urls[next(known, next(iter(self.reported_urls)))]
            self.reported_urls[reporter] = url

    def next_reported_url(self) -> str | None:
        """Return the next reported URL other than ``url``; None if no other URL is reported."""
        others = (one for one, url in self.reported_urls.items() if url != self.url)
        reporter = next(others, None)
        if reporter is None:
            return None
        url = self.reported_urls.pop(reporter)
        self.reported_urls[reporter] = url
        return url

    @property
    def loss(self) -> float | None:
        """The share of the last heartbeats without an answer; None: there were too few."""
        if len(self.heartbeats) < _MIN_HEARTBEATS:
            return None
        return 1 - sum(self.heartbeats) / len(self.heartbeats)

    @property
    def latency_ms(self) -> float | None:
        """The latency of the direct link (ms): half of the median round-trip time.

        None without a direct link or a measurement.
        """
        # The median: now and then a round trip also waits for one of the two processes.
        return statistics.median(self.samples) if self.address and self.samples else None
