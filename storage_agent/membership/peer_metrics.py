"""The metric of the sites that requests of this agent reach."""

import asyncio

from storage_agent import metrics
from storage_agent.membership.peers import Peers


class PeerMetrics:
    """Sets ``mistbow_agent_peer_reachable`` for each peer."""

    def __init__(self, peers: Peers) -> None:
        self._peers = peers
        self._changed: asyncio.Event | None = None
        self._reachable: dict[str, bool] = {}

    def update(self) -> None:
        """Set the metric of the peers that have changed since the last call, if any have."""
        if self._changed is not None and not self._changed.is_set():
            return
        self._changed = self._peers.changed()
        before = self._reachable
        self._reachable = {each.site: self._peers.reachable(each.site) for each in self._peers}
        for site in before.keys() - self._reachable.keys():
            metrics.PEER_REACHABLE.remove(site)
        for site, is_reachable in self._reachable.items():
            if before.get(site) is not is_reachable:
                metrics.PEER_REACHABLE.labels(site).set(is_reachable)
