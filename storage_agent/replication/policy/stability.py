"""The stability of this site and of its peers, computed from recent restarts and lost links."""

from dataclasses import dataclass, field

from mistbow.clock import Clock
from storage_agent.decay import DecayingCount
from storage_agent.membership.fabric_membership import FabricMembership
from storage_agent.membership.facts import HEALTH, Health
from storage_agent.replication.facts import health_of

HALF_LIFE_MS = 3_600_000
RESTART = 1.0
LOSS = 0.5
"""``RESTART`` and ``LOSS``: the amounts that a restart and a lost link add to the instability."""

_LATENCY_GROWTH = 1.01
"""The maximum factor by which one measurement increases the usual latency."""

_MIN_CHANGE_SHARE = 0.2
_MIN_INSTABILITY_CHANGE = 0.1


@dataclass(slots=True)
class _PeerHistory:
    """The restarts, lost links and latencies of a peer, as this agent has observed them.

    ``restarts`` and ``losses``: the counts of restarts and lost links that ``instability``
    includes. ``lost_links``: the lost links, as a decaying count. ``usual_latency_ms``: None before
    the first measurement.
    """

    restarts: int = 0
    losses: int = 0
    instability: DecayingCount = field(default_factory=DecayingCount)
    lost_links: DecayingCount = field(default_factory=DecayingCount)
    usual_latency_ms: float | None = None


class StabilityMonitor:
    """Computes the instability of this site and of its peers from restarts and lost links."""

    def __init__(self, membership: FabricMembership, clock: Clock) -> None:
        self._membership = membership
        self._clock = clock
        self._own = DecayingCount()
        self._peers: dict[str, _PeerHistory] = {}
        self._published: Health | None = None

    def open(self) -> None:
        """Recover this site's published instability, and add the present restart of the agent."""
        before = health_of(self._membership.facts_of(self._membership.site))
        if before is not None:
            count = DecayingCount(before.instability, before.at)
            self._own = count.plus(RESTART, self._clock(), HALF_LIFE_MS)

    def update(self) -> None:
        """Add the restarts and lost links since the last call, and update the usual latencies."""
        now = self._clock()
        peers = list(self._membership.peers)
        for peer in peers:
            history = self._peers.setdefault(peer.site, _PeerHistory(peer.restarts, 0))
            restarts, losses = peer.restarts - history.restarts, peer.losses - history.losses
            history.restarts, history.losses = peer.restarts, peer.losses
            if restarts or losses:
                amount = restarts * RESTART + losses * LOSS
                history.instability = history.instability.plus(amount, now, HALF_LIFE_MS)
                history.lost_links = history.lost_links.plus(losses, now, HALF_LIFE_MS)
                # Either end may cause a loss; a site that loses all its links is the cause.
                self._own = self._own.plus(LOSS * losses / len(peers), now, HALF_LIFE_MS)
            if (latency := peer.latency_ms) is not None:
                usual = history.usual_latency_ms
                grown = latency if usual is None else usual * _LATENCY_GROWTH
                history.usual_latency_ms = min(grown, latency)

    def publish(self, free_bytes: int, load: float) -> None:
        """Publish this site's health if it differs significantly from the published health.

        ``free_bytes``: the free disk space. ``load``: the points that the site stores per second.
        """
        now = self._clock()
        health = Health(
            instability=round(self.own_instability(now), 3),
            at=now,
            free_bytes=free_bytes,
            load=round(load, 1),
        )
        if self._published is None or _differs(self._published, health):
            self._published = health
            self._membership.publish(HEALTH, health)

    def own_instability(self, now: int) -> float:
        """Return the instability of this site at the time ``now`` (ms)."""
        return self._own.now(now, HALF_LIFE_MS)

    def instability(self, site: str, now: int) -> float:
        """Return the instability of a peer at the time ``now`` (ms).

        The result is the greater of two values: the instability that the peer published, and the
        instability that this agent observed.
        """
        published = health_of(self._membership.facts_of(site))
        observed = self._history(site).instability.now(now, HALF_LIFE_MS)
        if published is None:
            return observed
        count = DecayingCount(published.instability, published.at)
        return max(observed, count.now(now, HALF_LIFE_MS))

    def losses(self, site: str, now: int) -> float:
        """Return the decaying count of losses of the link to a site at the time ``now`` (ms)."""
        return self._history(site).lost_links.now(now, HALF_LIFE_MS)

    def usual_latency_ms(self, site: str) -> float | None:
        """Return the latency (ms) of the uncongested link to a site; None if not measured."""
        return self._history(site).usual_latency_ms

    def _history(self, site: str) -> _PeerHistory:
        return self._peers.get(site, _PeerHistory())


def _differs(published: Health, now: Health) -> bool:
    decayed = DecayingCount(published.instability, published.at).now(now.at, HALF_LIFE_MS)
    return (
        abs(decayed - now.instability) > _MIN_INSTABILITY_CHANGE
        or abs(published.free_bytes - now.free_bytes) > _MIN_CHANGE_SHARE * published.free_bytes
        or abs(published.load - now.load) > max(1.0, _MIN_CHANGE_SHARE * published.load)
    )
