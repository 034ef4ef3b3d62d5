"""This site's membership in the fabric: its own facts, its peers, and its peers' facts."""

import secrets
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import Any

import msgspec

from mistbow.clock import Clock
from mistbow.errors import ConflictError, NotFoundError
from mistbow.fabric import Enabler, Fabric, Site, SiteLink, Worker
from mistbow.failure_detector import Liveness
from mistbow.runtime.periodic import PeriodicTask, Schedule
from mistbow.runtime.slices import Slices
from mistbow.runtime.tasks import BackgroundTasks
from mistbow.settings import parse_labels
from mistbow.telemetry import get_logger
from storage_agent.membership import facts
from storage_agent.membership.clock_skew import ClockSkew
from storage_agent.membership.enablers import Enablers
from storage_agent.membership.fact_proofs import FactProofs
from storage_agent.membership.facts import SiteFact
from storage_agent.membership.heartbeat import Heartbeat
from storage_agent.membership.heartbeat_sender import HeartbeatSender
from storage_agent.membership.journal import FactJournal
from storage_agent.membership.link_facts import LinkFacts
from storage_agent.membership.link_probes import LinkProber
from storage_agent.membership.metadata_replicas import MetadataReplicas
from storage_agent.membership.network import PeerNetwork
from storage_agent.membership.peer import Peer
from storage_agent.membership.peer_metrics import PeerMetrics
from storage_agent.membership.peers import Peers
from storage_agent.membership.worker_history import WorkerHistory, reliability
from storage_agent.membership.workers import Workers, name_conflict
from storage_agent.series import Metadata, Series, series_key, series_of
from storage_agent.settings import AgentSettings
from storage_agent.streams.streams import Streams

log = get_logger(__name__)

_CHECK_S = 0.25
_MAX_NODE_LENGTH = 500


class FabricMembership:
    """Exchanges heartbeats and facts with peers, in the background.

    Writes of points never wait for peers.
    """

    def __init__(self, settings: AgentSettings, clock: Clock) -> None:
        self._site_fact = SiteFact(
            node=settings.node,
            url=settings.agent_url,
            region=settings.region,
            labels=parse_labels(settings.labels),
        )
        own = Heartbeat(
            site=settings.site,
            node=settings.node[:_MAX_NODE_LENGTH],
            url=settings.agent_url,
            instance=secrets.token_hex(8),
        )
        self.site = settings.site
        self.has_token = settings.proof is not None
        self._proofs = FactProofs(settings.proof)
        self._credentials: dict[str, str] = {}
        self.peers = Peers(own, settings.peer_urls, clock)
        self.network = PeerNetwork(settings.site, self.peers, settings.proof, settings.client_tls)
        self._journal = FactJournal(clock)
        self._worker_history = WorkerHistory(clock)
        self._workers = Workers(settings.site, time.monotonic, self._worker_history)
        self._enablers = Enablers(time.monotonic)
        self._replicas = MetadataReplicas(self.peers, self.network, clock)
        self._links = LinkFacts(
            self.peers, lambda site, fact: self._journal.publish(facts.link_key(site), fact)
        )
        self.skew = ClockSkew(clock, settings.clock_alarm_ms)
        self._heartbeats = HeartbeatSender(self.peers, self.network, self._links.update, self.skew)
        self._peer_metrics = PeerMetrics(self.peers)
        self._prober = LinkProber(self.peers, self.network, settings.link_probe_s)
        self._clock = clock
        self._forgotten: dict[str, int] = {}
        self.tasks = BackgroundTasks()

    def start(self) -> None:
        """Begin to send heartbeats; may be called before the streams are open."""
        self.tasks.spawn("heartbeats to other sites", self._heartbeats.run())
        self._call_periodically(self._check_peers, Schedule("peer_check", _CHECK_S))

    async def open(
        self,
        streams: Streams,
        series: Iterable[tuple[str, str, bytes]],
        exists: Callable[[Series], bool],
    ) -> None:
        """Recover the facts of all sites, and publish the facts of this site and of its series.

        ``series``: metric, entity and description of each series of this site. ``exists``: returns
        whether a series exists. Raises ``UnavailableError`` if Ignite does not answer.
        """
        await self._journal.open(streams)
        before = self._journal.facts
        for site in await self._replicas.open(streams):
            about = facts.site_fact(self._replicas.facts(site))
            if about is not None:
                self.peers.add(site, about.node, about.url)
        self._forgotten = facts.forgotten_sites(before) | self._forgotten
        self._journal.publish(facts.FORGOTTEN, self._forgotten or None)
        self._apply_forgotten()
        for target in facts.links(before).keys() - self._links.published.keys():
            self._journal.publish(facts.link_key(target), None)
        self._workers.restore(facts.workers(before))
        self._worker_history.restore(facts.instabilities(before))
        self._enablers.restore(facts.enablers(before))
        self._journal.publish(facts.SITE, self._site_fact)
        self._set_credential(facts.SITE, self._proofs.own_credential)
        async for key, event in Slices().over(facts.encode_series(series)):
            self._journal.publish_event(key, event)
        # The agent may have ended between the removal of a series and that of its fact.
        await self.retract_series(map(facts.series_of_key, before.series_keys()), exists)
        self.tasks.spawn("facts of this site", self._journal.run())
        self.tasks.spawn("metadata of other sites", self._replicas.run())
        if self._prober.is_enabled:
            self.tasks.spawn("link probes", self._prober.run())
        for work, schedule in (
            (self._check_workers, Schedule("worker_expiry", _CHECK_S, delay_s=_CHECK_S)),
            (self._expire_enablers, Schedule("enabler_expiry", _CHECK_S, delay_s=_CHECK_S)),
            (self._update_forgotten, Schedule("forgotten_sites", _CHECK_S, delay_s=_CHECK_S)),
        ):
            self._call_periodically(work, schedule)

    async def close(self) -> None:
        """Stop all tasks, and close all connections."""
        await self.tasks.close()
        await self.network.close()

    def publish_series(self, series: Iterable[Metadata]) -> None:
        """Publish the metadata of new or changed series as facts."""
        for metadata in series:
            self._journal.publish(series_key(series_of(metadata)), metadata)

    async def retract_series(
        self, series: Iterable[Series], exists: Callable[[Series], bool]
    ) -> None:
        """Remove the facts of series that were deleted or have expired.

        ``exists``: returns whether a series exists again.
        """
        async for each in Slices().over(series):
            if not exists(each):
                self._journal.publish(series_key(each), None)

    def receive_heartbeat(self, heartbeat: Heartbeat) -> Heartbeat:
        """Record a peer's heartbeat, and return the heartbeat of this agent as the answer.

        Without a token, any process on this machine may have sent the heartbeat. Raises
        ``ConflictError`` if two agents claim the same site.
        """
        if self.peers.receive_heartbeat(heartbeat, is_authenticated=self.has_token):
            self._heartbeats.send(heartbeat.url)
        return msgspec.structs.replace(self.peers.answer_to(heartbeat), now=self._clock())

    def publish(self, key: str, value: Any) -> None:
        """Set the fact ``key`` of this site to ``value``; the value None removes the fact."""
        self._journal.publish(key, value)

    async def flush(self) -> None:
        """Wait until all published facts are stored; raises ``UnavailableError``."""
        await self._journal.flush()

    def facts_of(self, site: str) -> facts.Facts:
        """Return the facts of a site; for another site, the facts that were received last."""
        return self._journal.facts if site == self.site else self._replicas.facts(site)

    def may_state(self, site: str, about: str) -> bool:
        """Return whether a site's facts about another site are accepted."""
        return self._proofs.may_state(site, self.facts_of(site), about)

    def may_witness_losses(self, site: str) -> bool:
        """Return whether replicas at another site may show that this site has lost rows.

        An agent compares replicas before it reads the facts of other sites. Until then, the proven
        credential of the other site's agent decides.
        """
        if self.may_state(site, self.site):
            return True
        proven = self.network.proven(site)
        return proven is not None and self._proofs.may_state_with(proven, self.site)

    def store_of(self, site: str) -> str | None:
        """Return the name of the store from which the facts of another site were read.

        Returns None if no facts were read.
        """
        return self._replicas.store(site)

    def announce_worker(self, worker: Worker) -> None:
        """Record that a worker is alive, and publish the worker as a fact of this site.

        Raises ``ConflictError`` if another live worker in the fabric has the name.
        """
        key, credential = facts.worker_key(worker.name), worker.credential
        worker = msgspec.structs.replace(worker, credential="", has_proven_name=False)
        if worker.instance:
            self._check_other_sites(worker, credential)
        if self._workers.announce(worker):
            log.info("worker_returned", worker=worker.name)
        self._journal.publish(
            key, msgspec.structs.replace(worker, suspected=False, reliability=1.0)
        )
        self._set_credential(key, credential)

    def remove_worker(self, name: str, instance: str = "") -> None:
        """Remove a worker, and remove the fact about the worker.

        ``instance``: only this instance of the worker is removed; empty: any instance is removed.
        """
        key = facts.worker_key(name)
        is_expired = not instance and self._proofs.is_expired(self._credential(key))
        if self._workers.remove(name, instance) or is_expired:
            self._withdraw(key)

    def announce_enabler(self, enabler: Enabler) -> None:
        """Record that an enabler is alive, and publish it as a fact of this site."""
        key, credential = facts.enabler_key(enabler.domain), enabler.credential
        enabler = msgspec.structs.replace(enabler, credential="", own_site_only=False)
        self._enablers.announce(enabler)
        self._journal.publish(key, enabler)
        self._set_credential(key, credential)

    def remove_enabler(self, domain: str) -> None:
        """Remove the enabler of a domain, and the fact about it."""
        self._enablers.remove(domain)
        self._withdraw(facts.enabler_key(domain))

    def _withdraw(self, key: str) -> None:
        """Remove the fact about a service, and the fact with its credential."""
        self._journal.publish(key, None)
        self._set_credential(key, "")

    def _withdraw_lost(self, key: str) -> None:
        """Remove the fact about a service that is silent.

        An expired credential remains: it is the reason why the service is silent.
        """
        self._journal.publish(key, None)
        if not self._proofs.is_expired(self._credential(key)):
            self._set_credential(key, "")

    def _set_credential(self, key: str, text: str) -> None:
        """Publish the credential of a service of this site; ``key``: of the fact about it."""
        if self._credentials.get(key) != text:
            self._credentials[key] = text
            self._journal.publish(facts.credential_key(key), text or None)

    def _check_other_sites(self, worker: Worker, credential: str) -> None:
        """Raise ``ConflictError`` if a reachable other site has a worker of the same name.

        Two workers of a name can both run if their sites could not reach each other. Then the
        worker at the site that sorts first keeps the name, as in the enabler. A worker to whose
        identity the name belongs has it in any case.
        """
        is_proven = self._proofs.worker(self.site, worker, credential).has_proven_name
        is_running = self._workers.has_instance(worker)
        for peer in self.peers:
            if not self.peers.reachable(peer.site):
                continue
            published = self.facts_of(peer.site)
            other = facts.worker_of(published, worker.name)
            if other is None or other.suspected:
                continue
            text = facts.credential(published, facts.worker_key(other.name))
            proven = self._proofs.worker(peer.site, other, text).has_proven_name
            if is_proven > proven or (is_proven == proven and is_running and self.site < peer.site):
                continue
            if other.instance != worker.instance:
                raise name_conflict(worker, other, peer.site)

    def check_unreachable(self, site: str) -> None:
        """Raise an error if a site cannot be removed from the fabric.

        Raises ``ConflictError`` if the site is reachable, and ``NotFoundError`` if the site is
        unknown.
        """
        if site == self.site or self.peers.reachable(site):
            raise ConflictError(
                f"the site {site} can be reached",
                hint="Only an unreachable site can be removed: stop its agent first.",
            )
        if self.peers.get(site) is None:
            names = ", ".join(peer.site for peer in self.peers) or "none"
            raise NotFoundError(f"there is no site {site}", hint=f"Other sites are {names}.")

    async def forget_site(self, site: str) -> None:
        """Remove a site; a later heartbeat adds the site again.

        With identities, the other agents remove it too only if this agent reaches all sites.
        Raises ``UnavailableError`` if the removal cannot be stored now.
        """
        self._forgotten[site] = self._clock()
        self._apply_forgotten()
        self._journal.publish(facts.FORGOTTEN, self._forgotten)
        await self.flush()

    def _apply_forgotten(self) -> None:
        forgotten = dict(self._forgotten)
        for peer in self.peers:
            for site, since in self._proofs.removals(peer.site, self.facts_of(peer.site)):
                forgotten[site] = max(since, forgotten.get(site, 0))
        forgotten.pop(self.site, None)
        self.peers.forget(forgotten)
        for site in forgotten:
            self.skew.forget(site)

    async def _update_forgotten(self) -> None:
        self._set_credential(facts.SITE, self._proofs.own_credential)
        back = [site for site in self._forgotten if self.peers.get(site) is not None]
        if back:
            for site in back:
                del self._forgotten[site]
            self._journal.publish(facts.FORGOTTEN, self._forgotten or None)
        self._apply_forgotten()

    def fabric(self) -> Fabric:
        """Return the fabric as this site sees it: the sites, the links and the forgotten sites."""
        own = Site(
            name=self.site,
            **msgspec.structs.asdict(self._site_fact),
            workers=tuple(
                msgspec.structs.replace(
                    self._proofs.worker(
                        self.site, worker, self._credential(facts.worker_key(worker.name))
                    ),
                    reliability=self._worker_history.reliability(worker.name),
                )
                for worker in self._workers.all()
            ),
            enablers=tuple(self._own_enablers()),
            identity_expires=self._proofs.expiry(self.site, self._credential(facts.SITE)),
            expired_identities=tuple(self._proofs.expired(self.site, self._journal.facts)),
        )
        others = [self._site_of(peer) for peer in self.peers]
        links = {
            site.name: facts.links(self.facts_of(site.name)) for site in others if site.reachable
        }
        links[self.site] = self._links.published
        return Fabric(
            site=self.site,
            sites=tuple(sorted([own, *others], key=lambda site: site.name)),
            links=tuple(
                SiteLink(source=source, target=target, **msgspec.structs.asdict(link))
                for source, of_source in sorted(links.items())
                for target, link in sorted(of_source.items())
            ),
            forgotten=self.peers.forgotten,
        )

    def _own_enablers(self) -> Iterator[Enabler]:
        for each in self._enablers.all():
            text = self._credential(facts.enabler_key(each.domain))
            if (found := self._proofs.enabler(self.site, each, text)) is not None:
                yield found

    def _credential(self, key: str) -> str:
        """Return the credential of a service of this site; it may be stored from an earlier run."""
        text = self._credentials.get(key)
        return facts.credential(self._journal.facts, key) if text is None else text

    def _site_of(self, peer: Peer) -> Site:
        published = self.facts_of(peer.site)
        about = facts.site_fact(published) or SiteFact(node=peer.node, url=peer.url)
        failures, now = facts.instabilities(published), self._clock()
        return Site(
            name=peer.site,
            **msgspec.structs.asdict(about),
            reachable=self.peers.reachable(peer.site),
            suspected=peer.suspected and not self.peers.reachable(peer.site),
            workers=tuple(
                msgspec.structs.replace(
                    worker, reliability=reliability(failures.get(worker.name), now)
                )
                for worker in self._proofs.workers(peer.site, published)
            ),
            enablers=tuple(self._proofs.enablers(peer.site, published)),
            identity_expires=self._proofs.expiry(
                peer.site, facts.credential(published, facts.SITE)
            ),
            expired_identities=tuple(self._proofs.expired(peer.site, published)),
        )

    async def _check_workers(self) -> None:
        for change in self._workers.check():
            worker, key = change.worker, facts.worker_key(change.worker.name)
            silence_s, phi = round(change.silence_s, 1), round(change.phi, 1)
            if change.liveness is Liveness.DEAD:
                log.warning("worker_lost", worker=worker.name, silence_s=silence_s, phi=phi)
                self._withdraw_lost(key)
            else:
                log.warning("worker_suspected", worker=worker.name, silence_s=silence_s, phi=phi)
                self._journal.publish(key, worker)
        for name, fact in self._worker_history.take_changes().items():
            self._journal.publish(facts.instability_key(name), fact)

    async def _check_peers(self) -> None:
        if self.peers.check_silence():
            self._links.update()
        self._peer_metrics.update()

    async def _expire_enablers(self) -> None:
        for domain in self._enablers.expire():
            log.warning("enabler_lost", domain=domain)
            self._withdraw_lost(facts.enabler_key(domain))

    def _call_periodically(self, work: Callable[[], Awaitable[None]], schedule: Schedule) -> None:
        PeriodicTask(work, schedule).spawn_in(self.tasks)
