"""The facts about the direct links of this site, which are published when they change much."""

from collections.abc import Callable

from storage_agent.membership.facts import LinkFact
from storage_agent.membership.peer import Peer
from storage_agent.membership.peers import Peers

_MIN_LATENCY_CHANGE = 0.2
_MIN_LATENCY_CHANGE_MS = 1.0
_MIN_LOSS_CHANGE = 0.1
_MIN_BANDWIDTH_CHANGE = 0.3

Publish = Callable[[str, LinkFact | None], None]
"""A function that sets the fact about the link to a site; None removes the fact."""


class LinkFacts:
    """The published facts about links: other site -> fact.

    A link is published again when its latency has changed by more than 20 % and by more than 1 ms,
    its loss by more than 0.1 or to 0, or its bandwidth by more than 30 %.
    """

    def __init__(self, peers: Peers, publish: Publish) -> None:
        self._peers = peers
        self._publish = publish
        self.published: dict[str, LinkFact] = {}

    def update(self) -> None:
        """Publish the links that are new, broken or changed."""
        linked = self._peers.linked()
        for site in self.published.keys() - {peer.site for peer in linked}:
            del self.published[site]
            self._publish(site, None)
        for peer in linked:
            former, now = self.published.get(peer.site), _measured(peer)
            if now is None:
                if self.published.pop(peer.site, None) is not None:
                    self._publish(peer.site, None)
            elif former is None or _has_changed(former, now):
                self.published[peer.site] = now
                self._publish(peer.site, now)


def _measured(peer: Peer) -> LinkFact | None:
    if peer.latency_ms is None:
        return None
    loss, bandwidth = peer.loss, peer.bandwidth_mbps
    return LinkFact(
        latency_ms=round(peer.latency_ms, 3),
        loss=None if loss is None else round(loss, 2),
        bandwidth_mbps=None if bandwidth is None else float(f"{bandwidth:.3g}"),
    )


def _has_changed(former: LinkFact, now: LinkFact) -> bool:
    least_ms = max(_MIN_LATENCY_CHANGE_MS, _MIN_LATENCY_CHANGE * former.latency_ms)
    return (
        abs(now.latency_ms - former.latency_ms) > least_ms
        or _differs(former.loss, now.loss, _MIN_LOSS_CHANGE)
        or (now.loss == 0 and bool(former.loss))
        or _differs(
            former.bandwidth_mbps,
            now.bandwidth_mbps,
            _MIN_BANDWIDTH_CHANGE * (former.bandwidth_mbps or 0.0),
        )
    )


def _differs(former: float | None, now: float | None, least: float) -> bool:
    if former is None or now is None:
        return former is not now
    return abs(now - former) > least
