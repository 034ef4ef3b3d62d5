"""The peers of this agent: their addresses, latencies, and the sites to which they have links."""

import asyncio
import statistics
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from mistbow.clock import Clock
from mistbow.errors import ConflictError
from mistbow.telemetry import get_logger
from storage_agent.membership.heartbeat import Heartbeat, PeerReport

log = get_logger(__name__)

_SAMPLES = 5
_MAX_STRANGERS = 100
"""The number of ignored senders of heartbeats that are logged."""


@dataclass(slots=True)
class Peer:
    """The agent of another site.

    ``instance``: the id of the peer's process; None before the first answer. ``address``: the
    address at which the peer answers; None while the peer does not answer. ``answered_at``: the
    time of the last answer (ms since the epoch). ``reaches``: the sites to which the peer has
    direct links, according to the last answer. ``samples``: the last latencies (ms). ``restarts``
    and ``losses``: how often the peer has restarted and how often it has stopped answering, since
    this agent started.
    """

    site: str
    node: str
    url: str
    instance: str | None = None
    address: str | None = None
    answered_at: int | None = None
    reaches: frozenset[str] = frozenset()
    samples: deque[float] = field(default_factory=lambda: deque(maxlen=_SAMPLES))
    restarts: int = 0
    losses: int = 0

    @property
    def latency_ms(self) -> float | None:
        """The latency of the direct link (ms): half of the median round-trip time.

        None without a direct link or a measurement.
        """
        # The median: now and then a round trip also waits for one of the two processes.
        return statistics.median(self.samples) if self.address and self.samples else None


class Peers:
    """The peers of this agent, by site.

    ``own``: the heartbeat of this agent, without peers. ``seeds``: configured addresses of agents
    whose sites are unknown.
    """

    def __init__(self, own: Heartbeat, seeds: Iterable[str], clock: Clock) -> None:
        self._own = own
        self._clock = clock
        self._peers: dict[str, Peer] = {}
        self._seeds: dict[str, str | None] = dict.fromkeys(seeds)
        self._changed = asyncio.Event()
        self._conflicts: set[tuple[str, str]] = set()
        self._strangers: set[tuple[str, str]] = set()
        self._forgotten: Mapping[str, int] = {}

    def __iter__(self) -> Iterator[Peer]:
        yield from [self._peers[site] for site in sorted(self._peers)]

    def get(self, site: str) -> Peer | None:
        """Return the peer of a site; None: the site is unknown."""
        return self._peers.get(site)

    def changed(self) -> asyncio.Event:
        """Return the event that is set when the peers or their links next change.

        An event is set only once: to wait for another change, call this method again.
        """
        return self._changed

    def heartbeat(self) -> Heartbeat:
        """Return the heartbeat that this agent sends."""
        peers = tuple(
            PeerReport(
                site=peer.site,
                node=peer.node,
                url=peer.url,
                reached=peer.address is not None,
                latency_ms=peer.latency_ms,
            )
            for peer in self
        )
        return Heartbeat(
            site=self._own.site,
            node=self._own.node,
            url=self._own.url,
            instance=self._own.instance,
            peers=peers,
        )

    def addresses(self) -> set[str]:
        """Return the addresses to which this agent sends heartbeats.

        These are the addresses of all peers, and the seeds that do not answer.
        """
        wanted = {peer.address or peer.url for peer in self}
        for seed, site in self._seeds.items():
            peer = self._peers.get(site or "")
            if site != self._own.site and (peer is None or peer.address is None):
                wanted.add(seed)
        return wanted - {self._own.url}

    def reachable(self, site: str) -> bool:
        """Return whether requests can reach a site, directly or through another site."""
        return bool(self.next_hops(site))

    def next_hops(self, site: str) -> list[Peer]:
        """Return the peers to which a request for a site can be sent, the best peer first."""
        peer = self._peers.get(site)
        direct = [peer] if peer is not None and peer.address is not None else []
        through = [each for each in self if each.address and site in each.reaches]
        return direct + sorted(through, key=lambda each: each.latency_ms or 0.0)

    def add(self, site: str, node: str, url: str) -> None:
        """Add a peer, or update its node and URL, unless the peer answers heartbeats."""
        peer = self._peers.get(site)
        if site == self._own.site or (peer is not None and peer.address is not None):
            return
        if peer is None:
            log.info("peer_added", site=site, url=url)
            peer = self._peers[site] = Peer(site, node, url)
            self._signal_change()
        peer.node, peer.url = node, url

    def forget(self, forgotten: Mapping[str, int]) -> None:
        """Remove forgotten sites from the peers; ``forgotten``: site -> time of the removal (ms).

        Each removal is applied only once, and only to an unreachable site. Therefore a site that is
        reachable at this moment remains a peer, and a site that is added again later remains a peer
        too.
        """
        before, self._forgotten = self._forgotten, dict(forgotten)
        for site, since in forgotten.items():
            is_new = since > before.get(site, -1)
            if is_new and site in self._peers and not self.reachable(site):
                log.info("peer_forgotten", site=site)
                del self._peers[site]
                self._signal_change()

    @property
    def forgotten(self) -> tuple[str, ...]:
        """The forgotten sites that have not become peers again."""
        return tuple(sorted(self._forgotten.keys() - self._peers.keys()))

    def check(self, heartbeat: Heartbeat) -> bool:
        """Return whether the sender of a heartbeat is another agent, not this agent itself.

        Raises ``ConflictError`` if two agents claim the same site.
        """
        site = heartbeat.site
        if site == self._own.site:
            if heartbeat.instance == self._own.instance:
                return False
            self._reject(heartbeat, self._own.url)
        peer = self._peers.get(site)
        if peer is not None and peer.address is not None and peer.url != heartbeat.url:
            self._reject(heartbeat, peer.url)
        return True

    def receive_heartbeat(self, heartbeat: Heartbeat, *, is_authenticated: bool) -> bool:
        """Record a heartbeat of a peer; return whether this agent must send one to the peer.

        The agent must do so if the peer does not answer at present. ``is_authenticated``: False if
        anybody may have sent the heartbeat: the addresses in it are then ignored, unless this agent
        has an address from its settings or from a peer that answers. Raises ``ConflictError`` if
        two agents claim the same site.
        """
        if not self.check(heartbeat):
            return False
        if not is_authenticated:
            return self._is_awaited(heartbeat)
        self.add(heartbeat.site, heartbeat.node, heartbeat.url)
        self._add_reported(heartbeat)
        return self._peers[heartbeat.site].address is None

    def record_answer(self, address: str, heartbeat: Heartbeat, trip_ms: float | None) -> None:
        """Record a peer's answer to a heartbeat of this agent.

        ``address``: the address that answered. ``trip_ms``: the round-trip time; None: the time was
        not measured. Raises ``ConflictError`` if two agents claim the same site.
        """
        for other in self:
            if other.address == address and other.site != heartbeat.site:
                self._set_unreachable(other)
        if address in self._seeds:
            self._seeds[address] = heartbeat.site
        if not self.check(heartbeat):
            return
        self.add(heartbeat.site, heartbeat.node, heartbeat.url)
        peer = self._peers[heartbeat.site]
        if peer.address is None:
            peer.address = address
            peer.samples.clear()
            self._signal_change()
        if peer.address == address and trip_ms is not None:
            peer.samples.append(trip_ms / 2)
        peer.restarts += peer.instance not in (None, heartbeat.instance)
        peer.node, peer.instance = heartbeat.node, heartbeat.instance
        peer.answered_at = self._clock()
        reaches = frozenset(report.site for report in heartbeat.peers if report.reached)
        if reaches != peer.reaches:
            peer.reaches = reaches
            self._signal_change()
        self._add_reported(heartbeat)

    def record_failure(self, address: str) -> None:
        """Record that the agent at an address did not answer a heartbeat."""
        for peer in self:
            if peer.address == address:
                self._set_unreachable(peer)

    def _set_unreachable(self, peer: Peer) -> None:
        log.info("peer_unreachable", site=peer.site, address=peer.address)
        peer.address = None
        peer.losses += 1
        peer.reaches = frozenset()
        self._signal_change()

    def _add_reported(self, heartbeat: Heartbeat) -> None:
        for report in heartbeat.peers:
            # A sender that does not reach a site may report an old address of it, or a site that
            # was forgotten meanwhile.
            is_new = report.site not in self._peers and report.site not in self._forgotten
            if report.reached or is_new:
                self.add(report.site, report.node, report.url)

    def _is_awaited(self, heartbeat: Heartbeat) -> bool:
        """Return whether a heartbeat names a known address from which no agent answers at present.

        An address is known if it is configured, or if it is the address of a peer.
        """
        peer = self._peers.get(heartbeat.site)
        if peer is not None and peer.url == heartbeat.url:
            return peer.address is None
        if heartbeat.url in self._seeds:
            return peer is None or peer.address is None
        stranger = (heartbeat.site, heartbeat.url)
        if stranger not in self._strangers and len(self._strangers) < _MAX_STRANGERS:
            self._strangers.add(stranger)
            log.warning("heartbeat_ignored", site=heartbeat.site, url=heartbeat.url)
        return False

    def _reject(self, heartbeat: Heartbeat, url: str) -> None:
        if (heartbeat.site, heartbeat.url) not in self._conflicts:
            self._conflicts.add((heartbeat.site, heartbeat.url))
            log.error("site_name_conflict", site=heartbeat.site, first=url, second=heartbeat.url)
        raise ConflictError(
            f"the agent at {heartbeat.url} claims to be the site {heartbeat.site}, "
            f"which belongs to the agent at {url}",
            hint="Start one of the two agents with another MISTBOW_SITE.",
        )

    def _signal_change(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()
