"""The peers of this agent: their addresses, latencies, and the sites to which they have links."""

import asyncio
import time
from collections.abc import Iterable, Iterator, Mapping

import msgspec

from mistbow.clock import Clock
from mistbow.errors import ConflictError
from mistbow.failure_detector import FailureDetector, Liveness, RunningTime, Seconds
from mistbow.telemetry import get_logger
from storage_agent.membership.heartbeat import Heartbeat, PeerReport
from storage_agent.membership.heartbeat_targets import (
    MAX_TARGETS,
    select_links,
    select_targets,
)
from storage_agent.membership.peer import Peer
from storage_agent.membership.peer_reports import PeerReports

log = get_logger(__name__)

HEARTBEAT_INTERVAL_S = 1.0
"""The interval (s) at which an agent sends heartbeats to a peer."""

MAX_SITES = 5000
"""The maximum number of sites that other agents may report."""

_SELECTION_ROUNDS = 10
"""The number of rounds for which an agent of a large fog publishes the same links."""

_MAX_LOGGED = 100
"""The maximum number of ignored senders that are logged, and also of rejected senders."""


class Peers:
    """The peers of this agent, by site.

    ``own``: the heartbeat of this agent, without peers. ``seeds``: configured addresses of agents
    whose sites are unknown.

    A peer is unreachable as soon as it refuses a heartbeat or is suspected. An answer that is only
    late does not make the peer unreachable.
    """

    def __init__(
        self,
        own: Heartbeat,
        seeds: Iterable[str],
        clock: Clock,
        monotonic: Seconds = time.monotonic,
    ) -> None:
        self._own = own
        self._clock = clock
        self._running_time = RunningTime(monotonic)
        self._peers: dict[str, Peer] = {}
        self._seeds: dict[str, str | None] = dict.fromkeys(seeds)
        self._changed = asyncio.Event()
        self._conflicts: set[tuple[str, str]] = set()
        self._strangers: set[tuple[str, str]] = set()
        self._forgotten: Mapping[str, int] = {}
        self._reports = PeerReports()
        self._suspects: set[str] = set()
        self._seeds_tried: dict[str, int] = {}
        self._round = 0
        self._linked: frozenset[str] = frozenset()
        self._contacted: dict[str, Peer] = {}
        """Address -> the peer to which this round sends a heartbeat."""
        self._selected_from = 0
        """The number of peers at the last selection of links."""
        self._is_full = False
        self._reachable: frozenset[str] | None = None

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

    def heartbeat_to(self, address: str) -> Heartbeat:
        """Return the heartbeat for the agent at an address."""
        found = (each for each in self._peers.values() if address in (each.address, each.url))
        peer = self._contacted.get(address) or next(found, None)
        # In a large fog, a peer that requests all reports gets them in the answer to its heartbeat.
        since = 0 if peer is None else peer.acknowledged
        return self._heartbeat(peer, since, wants_all=not self._is_large)

    def answer_to(self, heartbeat: Heartbeat) -> Heartbeat:
        """Return the answer to a heartbeat."""
        peer = self._peers.get(heartbeat.site)
        return self._heartbeat(peer, self._seen_in(heartbeat), wants_all=heartbeat.wants_all)

    def _heartbeat(self, peer: Peer | None, since: int, *, wants_all: bool) -> Heartbeat:
        """Return a heartbeat with the reports after ``since``, for a peer or any receiver.

        ``wants_all``: whether the receiver needs all of these reports.
        """
        since, reports = self._reports.after(since, wants_all=wants_all)
        return msgspec.structs.replace(
            self._own,
            peers=reports,
            version=self._reports.version,
            since=since,
            seen=0 if peer is None else peer.version,
            seen_instance="" if peer is None else peer.instance or "",
            wants_all=peer is None or self._is_linked(peer),
        )

    def _seen_in(self, heartbeat: Heartbeat) -> int:
        """Return the version of this agent's reports that the sender of a heartbeat has."""
        is_ours = heartbeat.seen_instance == self._own.instance
        return heartbeat.seen if is_ours and heartbeat.seen <= self._reports.version else 0

    def begin_round(self) -> set[str]:
        """Begin a round; return the addresses to which this agent sends heartbeats in the round.

        They are the addresses of all peers, or in a large fog of some peers, and the addresses of
        seeds that do not answer. A silent peer is also contacted at an address that another site
        reports, in case the peer has moved.
        """
        self._round += 1
        self._select_linked()
        sites = {peer.site: peer.contacted for peer in self._peers.values()}
        chosen = select_targets(self._own.site, sites, self._suspects)
        self._suspects -= chosen
        peers = [self._peers[site] for site in chosen]
        for peer in peers:
            self._contact(peer)
        # A peer that answers at an address precedes a silent one that had the address before.
        silent = [peer for peer in peers if peer.address is None]
        reported = {url: peer for peer in silent if (url := peer.next_reported_url())}
        answering = {peer.address: peer for peer in peers if peer.address}
        self._contacted = reported | {peer.url: peer for peer in silent} | answering
        return (self._contacted.keys() | self._seeds_of_round()) - {self._own.url}

    def _contact(self, peer: Peer) -> None:
        """Record that this agent sends a heartbeat to a peer in this round."""
        peer.is_regular = peer.contacted == self._round - 1
        if peer.address is not None and not peer.is_regular:
            # In a large fog, not each peer is contacted each second: the silence was expected.
            peer.detector.record_first_heartbeat()
        peer.contacted, peer.is_awaited = self._round, True

    def _seeds_of_round(self) -> set[str]:
        """Return the least recently tried seeds that do not answer, up to ``MAX_TARGETS``."""
        silent = []
        for seed, site in self._seeds.items():
            peer = self._peers.get(site or "")
            if site != self._own.site and (peer is None or peer.address is None):
                silent.append(seed)
        tried = self._seeds_tried
        chosen = sorted(silent, key=lambda seed: tried.get(seed, 0))[:MAX_TARGETS]
        tried.update(dict.fromkeys(chosen, self._round))
        return set(chosen)

    def linked(self) -> list[Peer]:
        """Return the peers whose direct links this agent publishes.

        They are all peers, or in a large fog the neighbours and the nearest peers of the last
        round.
        """
        return [peer for peer in self if self._is_linked(peer)]

    def _is_linked(self, peer: Peer) -> bool:
        return not self._is_large or peer.site in self._linked

    @property
    def _is_large(self) -> bool:
        """Whether the fog has more peers than this agent contacts in a round."""
        return len(self._peers) > MAX_TARGETS

    def _select_linked(self) -> None:
        """Select the linked peers, and forget which sites the other peers reach.

        A peer that becomes linked sends all its reports again.
        """
        is_due = self._round % _SELECTION_ROUNDS == 0 or self._selected_from != len(self._peers)
        if self._is_large and is_due:
            self._selected_from = len(self._peers)
            latencies = {peer.site: peer.latency_ms for peer in self._peers.values()}
            self._linked = select_links(self._own.site, latencies, self._linked)
        for peer in self._peers.values():
            is_linked = self._is_linked(peer)
            if not is_linked and peer.linked_sites:
                peer.linked_sites = frozenset()
                self._signal_change()
            elif is_linked and not peer.linked_sites:
                peer.version = 0

    def reachable(self, site: str) -> bool:
        """Return whether requests can reach a site, directly or through another site."""
        if self._reachable is None:
            answering = [peer for peer in self._peers.values() if peer.address is not None]
            through = (peer.proxied_sites for peer in answering)
            self._reachable = frozenset(peer.site for peer in answering).union(*through)
        return site in self._reachable

    def next_hops(self, site: str) -> list[Peer]:
        """Return the peers to which a request for a site can be sent, the best peer first."""
        peer = self._peers.get(site)
        direct = [peer] if peer is not None and peer.address is not None else []
        peers = self._peers.values()
        through = [each for each in peers if each.address and site in each.proxied_sites]
        return direct + sorted(through, key=lambda each: (each.latency_ms or 0.0, each.site))

    def add(self, site: str, node: str, url: str) -> None:
        """Add a peer, or update its node and URL, unless the peer answers heartbeats.

        For a known peer, the node and the URL must be those that the peer itself states.
        """
        peer = self._peers.get(site)
        if site == self._own.site or (peer is not None and peer.address is not None):
            return
        if peer is None:
            log.info("peer_added", site=site, url=url)
            detector = FailureDetector(HEARTBEAT_INTERVAL_S, self._running_time)
            peer = self._peers[site] = Peer(site, node, url, detector)
            self._signal_change()
        peer.node, peer.url = node, url
        self._report(peer)

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
                self._reports.remove(site)
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
        peer = self._peers[heartbeat.site]
        self._apply_reports(peer, heartbeat)
        return peer.address is None

    def record_answer(
        self,
        address: str,
        heartbeat: Heartbeat,
        trip_ms: float | None,
        reach: frozenset[str] | None = None,
    ) -> None:
        """Record a peer's answer to a heartbeat of this agent.

        ``address``: the address that answered. ``trip_ms``: the round-trip time; None: the time was
        not measured. ``reach``: the sites at which the peer has rights; see ``Peer``. Raises
        ``ConflictError`` if two agents claim the same site.
        """
        known = self._peers.get(heartbeat.site)
        if known is None or known.address != address:
            for other in self._peers.values():
                if other.address == address and other.site != heartbeat.site:
                    self._set_unreachable(other, "another site has its address")
        if address in self._seeds:
            self._seeds[address] = heartbeat.site
        if not self.check(heartbeat):
            return
        self.add(heartbeat.site, heartbeat.node, heartbeat.url)
        peer = self._peers[heartbeat.site]
        if peer.answered_at is not None and peer.is_regular:
            peer.detector.record_heartbeat()
        else:
            peer.detector.record_first_heartbeat()
        peer.is_awaited = False
        if peer.reach != reach:
            peer.reach = reach
            self._signal_change()
        if peer.address is None:
            if peer.answered_at is not None:
                log.info("peer_returned", site=peer.site, address=address)
            peer.address, peer.suspected = address, False
            peer.samples.clear()
            peer.reported_urls.clear()
            if not any(peer.heartbeats):
                peer.heartbeats.clear()  # the link was down, and did not lose some heartbeats
            self._signal_change()
        if peer.address == address and trip_ms is not None:
            peer.samples.append(trip_ms / 2)
        peer.heartbeats.append(True)
        if peer.instance != heartbeat.instance:
            peer.restarts += peer.instance is not None
            peer.instance, peer.version = heartbeat.instance, 0
        peer.node = heartbeat.node
        peer.answered_at = self._clock()
        self._report(peer)
        self._apply_reports(peer, heartbeat)

    def record_failure(self, address: str, *, is_timeout: bool = False) -> None:
        """Record that the agent at an address did not answer a heartbeat.

        ``is_timeout``: whether the agent may only be slow: it refused nothing.
        """
        for peer in self:
            if address in (peer.address, peer.url):
                peer.heartbeats.append(False)
            if peer.address == address and not is_timeout:
                self._set_unreachable(peer, "it refused a heartbeat")

    def answers(self, address: str) -> bool:
        """Return whether a reachable peer has this address."""
        return any(peer.address == address for peer in self)

    def check_silence(self) -> bool:
        """Mark suspected peers as unreachable, and note dead peers; return whether any has changed.

        Call this method several times a second.
        """
        self._running_time()
        has_changed = False
        for peer in self._peers.values():
            if not (peer.is_awaited or peer.suspected):
                continue
            liveness = peer.detector.liveness
            is_silent = peer.is_awaited and liveness is not Liveness.ALIVE
            if peer.address is not None and is_silent:
                self._set_unreachable(peer, f"silent for {peer.detector.silence_s:.1f} s")
                has_changed = True
            if peer.suspected and liveness is Liveness.DEAD:
                log.warning("peer_lost", site=peer.site, url=peer.url)
                peer.suspected = False
                self._signal_change()
                has_changed = True
        return has_changed

    def _set_unreachable(self, peer: Peer, reason: str) -> None:
        log.info("peer_unreachable", site=peer.site, address=peer.address, reason=reason)
        peer.address, peer.suspected = None, True
        peer.losses += 1
        peer.linked_sites = frozenset()
        peer.version = 0
        self._report(peer)
        self._signal_change()

    def _report(self, peer: Peer) -> None:
        """Update the report about a peer in the heartbeats of this agent."""
        self._reports.set(
            PeerReport(
                site=peer.site,
                node=peer.node,
                url=peer.url,
                reached=peer.address is not None,
                latency_ms=peer.latency_ms,
            )
        )

    def _apply_reports(self, peer: Peer, heartbeat: Heartbeat) -> None:
        """Apply the reports in a heartbeat of ``peer``.

        Of a linked peer, reports that follow a version that this agent lacks are ignored: the peer
        sends them again, because the next heartbeat of this agent names the version that it has. Of
        other peers, the changes suffice: all sites are in the reports of the linked peers.
        """
        peer.acknowledged = self._seen_in(heartbeat)
        is_next = heartbeat.since <= peer.version or not self._is_linked(peer)
        if heartbeat.since and not (is_next and heartbeat.instance == peer.instance):
            return
        self._add_reported(heartbeat)
        if peer.address is None or heartbeat.instance != peer.instance:
            return
        peer.version = heartbeat.version
        if not self._is_linked(peer):
            return
        reached = {report.site for report in heartbeat.peers if report.reached}
        lost = {report.site for report in heartbeat.peers} - reached
        former = peer.linked_sites if heartbeat.since else frozenset[str]()
        before = peer.proxied_sites
        peer.linked_sites = (former - lost) | reached
        if peer.proxied_sites != before:
            self._signal_change()

    def _add_reported(self, heartbeat: Heartbeat) -> None:
        for report in heartbeat.peers:
            # A sender that does not reach a site may report an old address of it, or a site that
            # was forgotten meanwhile.
            peer = self._peers.get(report.site)
            is_new = peer is None and report.site not in self._forgotten
            if is_new and len(self._peers) >= MAX_SITES:
                self._ignore(report.site)
            elif peer is None and (report.reached or is_new):
                self.add(report.site, report.node, report.url)
                peer = self._peers.get(report.site)
            if peer is None:
                continue
            peer.record_report(heartbeat.site, report.url if report.reached else None)
            if report.reached is (peer.address is None):
                # This agent disagrees: the site is contacted soon.
                self._suspects.add(report.site)

    def _ignore(self, site: str) -> None:
        if not self._is_full:
            self._is_full = True
            log.error("sites_ignored", first=site, sites=MAX_SITES)

    def _is_awaited(self, heartbeat: Heartbeat) -> bool:
        """Return whether a heartbeat names a known address from which no agent answers at present.

        An address is known if it is configured, or if it is the address of a peer, also one that
        another site reports.
        """
        peer = self._peers.get(heartbeat.site)
        if peer is not None and heartbeat.url in (peer.url, *peer.reported_urls.values()):
            return peer.address is None
        if heartbeat.url in self._seeds:
            return peer is None or peer.address is None
        stranger = (heartbeat.site, heartbeat.url)
        if stranger not in self._strangers and len(self._strangers) < _MAX_LOGGED:
            self._strangers.add(stranger)
            log.warning("heartbeat_ignored", site=heartbeat.site, url=heartbeat.url)
        return False

    def _reject(self, heartbeat: Heartbeat, url: str) -> None:
        conflict = (heartbeat.site, heartbeat.url)
        if conflict not in self._conflicts and len(self._conflicts) < _MAX_LOGGED:
            self._conflicts.add(conflict)
            log.error("site_name_conflict", site=heartbeat.site, first=url, second=heartbeat.url)
        raise ConflictError(
            f"the agent at {heartbeat.url} claims to be the site {heartbeat.site}, "
            f"which belongs to the agent at {url}",
            hint="Start one of the two agents with another MISTBOW_SITE.",
        )

    def _signal_change(self) -> None:
        self._reachable = None
        self._changed.set()
        self._changed = asyncio.Event()
