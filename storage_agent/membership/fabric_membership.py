"""This site's membership in the fabric: its own facts, its peers, and its peers' facts."""

import asyncio
import secrets
import time
from collections.abc import Callable, Coroutine, Iterable
from typing import Any

import msgspec

from mistbow.clock import Clock
from mistbow.errors import ConflictError, NotFoundError
from mistbow.fabric import Fabric, Site, SiteLink, Worker
from mistbow.runtime.periodic import PeriodicTask, Schedule
from mistbow.runtime.slices import Slices
from mistbow.runtime.tasks import cancel_and_wait
from mistbow.settings import parse_labels
from mistbow.telemetry import get_logger
from storage_agent.membership import facts
from storage_agent.membership.facts import LinkFact, SiteFact
from storage_agent.membership.heartbeat import Heartbeat
from storage_agent.membership.heartbeat_sender import HeartbeatSender
from storage_agent.membership.journal import FactJournal
from storage_agent.membership.metadata_replicas import MetadataReplicas
from storage_agent.membership.network import PeerNetwork
from storage_agent.membership.peers import Peer, Peers
from storage_agent.membership.workers import Workers, name_conflict
from storage_agent.series import Metadata, Series, series_key, series_of
from storage_agent.settings import AgentSettings
from storage_agent.streams.streams import Streams

log = get_logger(__name__)

_CHECK_S = 0.25
_MIN_LATENCY_CHANGE = 0.2
_MIN_LATENCY_CHANGE_MS = 1.0
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
        self.has_token = settings.token is not None
        self.peers = Peers(own, settings.peer_urls, clock)
        self.network = PeerNetwork(settings.site, self.peers, settings.token, settings.tls_ca)
        self._journal = FactJournal(clock)
        self._workers = Workers(settings.site, time.monotonic)
        self._replicas = MetadataReplicas(self.peers, self.network, clock)
        self._heartbeats = HeartbeatSender(self.peers, self.network, self._publish_links)
        self._links: dict[str, float] = {}
        self._clock = clock
        self._forgotten: dict[str, int] = {}
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Begin to send heartbeats; may be called before the streams are open."""
        self._spawn(self._heartbeats.run())

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
        for target in facts.link_latencies(before).keys() - self._links.keys():
            self._journal.publish(facts.link_key(target), None)
        self._workers.restore(facts.workers(before))
        self._journal.publish(facts.SITE, self._site_fact)
        async for key, event in Slices().over(facts.encode_series(series)):
            self._journal.publish_event(key, event)
        # The agent may have ended between the removal of a series and that of its fact.
        await self.retract_series(map(facts.series_of_key, before.series_keys()), exists)
        self._spawn(self._journal.run())
        self._spawn(self._replicas.run())
        for work, schedule in (
            (self._expire_workers, Schedule("worker_expiry", _CHECK_S, delay_s=_CHECK_S)),
            (self._update_forgotten, Schedule("forgotten_sites", _CHECK_S, delay_s=_CHECK_S)),
        ):
            self._spawn(PeriodicTask(work, schedule).run())

    async def close(self) -> None:
        """Stop all tasks, and close all connections."""
        await cancel_and_wait(self._tasks)
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

        Without a token, anybody on this machine may have sent the heartbeat. Raises
        ``ConflictError`` if two agents claim the same site.
        """
        if self.peers.receive_heartbeat(heartbeat, is_authenticated=self.has_token):
            self._heartbeats.send(heartbeat.url)
        return self.peers.heartbeat()

    def publish(self, key: str, value: Any) -> None:
        """Set the fact ``key`` of this site to ``value``; the value None removes the fact."""
        self._journal.publish(key, value)

    async def flush(self) -> None:
        """Wait until all published facts are stored; raises ``UnavailableError``."""
        await self._journal.flush()

    def facts_of(self, site: str) -> facts.Facts:
        """Return the facts of a site; for another site, the facts that were received last."""
        return self._journal.facts if site == self.site else self._replicas.facts(site)

    def store_of(self, site: str) -> str | None:
        """Return the name of the store from which the facts of another site were read.

        Returns None if no facts were read.
        """
        return self._replicas.store(site)

    def announce_worker(self, worker: Worker) -> None:
        """Record that a worker is alive, and publish the worker as a fact of this site.

        Raises ``ConflictError`` if another live worker in the fabric has the name.
        """
        if worker.instance:
            self._check_other_sites(worker)
        self._workers.announce(worker)
        self._journal.publish(facts.worker_key(worker.name), worker)

    def remove_worker(self, name: str, instance: str = "") -> None:
        """Remove a worker, and remove the fact about the worker.

        ``instance``: another instance of the worker is not removed; empty: any instance is removed.
        """
        if self._workers.remove(name, instance):
            self._journal.publish(facts.worker_key(name), None)

    def _check_other_sites(self, worker: Worker) -> None:
        """Raise ``ConflictError`` if a reachable other site has a worker of the same name.

        Two workers of a name can both run if their sites could not reach each other. Then the
        worker keeps the name whose site sorts first: the enabler uses this one, too.
        """
        is_running = self._workers.has_instance(worker)
        for peer in self.peers:
            if (is_running and self.site < peer.site) or not self.peers.reachable(peer.site):
                continue
            other = facts.worker_of(self.facts_of(peer.site), worker.name)
            if other is not None and other.instance != worker.instance:
                raise name_conflict(worker, other, peer.site)

    def check_unreachable(self, site: str) -> None:
        """Raise an error if a site cannot be removed from the fabric.

        Raises ``ConflictError`` if the site is reachable, and ``NotFoundError`` if the site is
        unknown.
        """
        if site == self.site or self.peers.reachable(site):
            raise ConflictError(
                f"the site {site} can be reached",
                hint="Only a site that is gone for good can be forgotten: stop its agent first.",
            )
        if self.peers.get(site) is None:
            names = ", ".join(peer.site for peer in self.peers) or "none"
            raise NotFoundError(f"there is no site {site}", hint=f"Other sites are {names}.")

    async def forget_site(self, site: str) -> None:
        """Remove a site from the fabric, at all sites; a later heartbeat adds the site again.

        Raises ``UnavailableError`` if the removal cannot be stored now.
        """
        self._forgotten[site] = self._clock()
        self._apply_forgotten()
        self._journal.publish(facts.FORGOTTEN, self._forgotten)
        await self.flush()

    def _apply_forgotten(self) -> None:
        forgotten = dict(self._forgotten)
        for peer in self.peers:
            for site, since in facts.forgotten_sites(self.facts_of(peer.site)).items():
                forgotten[site] = max(since, forgotten.get(site, 0))
        forgotten.pop(self.site, None)
        self.peers.forget(forgotten)

    async def _update_forgotten(self) -> None:
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
            workers=self._workers.all(),
        )
        others = [self._site_of(peer) for peer in self.peers]
        links = {
            site.name: facts.link_latencies(self.facts_of(site.name))
            for site in others
            if site.reachable
        }
        links[self.site] = self._links
        return Fabric(
            site=self.site,
            sites=tuple(sorted([own, *others], key=lambda site: site.name)),
            links=tuple(
                SiteLink(source=source, target=target, latency_ms=latency)
                for source, latencies in sorted(links.items())
                for target, latency in sorted(latencies.items())
            ),
            forgotten=self.peers.forgotten,
        )

    def _site_of(self, peer: Peer) -> Site:
        published = self.facts_of(peer.site)
        about = facts.site_fact(published) or SiteFact(node=peer.node, url=peer.url)
        return Site(
            name=peer.site,
            **msgspec.structs.asdict(about),
            reachable=self.peers.reachable(peer.site),
            workers=facts.workers(published),
        )

    def _publish_links(self) -> None:
        """Publish the direct links of this site that are new, broken or have another latency.

        A latency is published again when it has changed by more than 20 % and by more than 1 ms.
        """
        for peer in self.peers:
            now, published = peer.latency_ms, self._links.get(peer.site)
            key = facts.link_key(peer.site)
            if now is None:
                if self._links.pop(peer.site, None) is not None:
                    self._journal.publish(key, None)
            elif published is None or abs(now - published) > max(
                _MIN_LATENCY_CHANGE_MS, _MIN_LATENCY_CHANGE * published
            ):
                self._links[peer.site] = round(now, 3)
                self._journal.publish(key, LinkFact(latency_ms=self._links[peer.site]))

    async def _expire_workers(self) -> None:
        for name in self._workers.expire():
            log.warning("worker_lost", worker=name)
            self._journal.publish(facts.worker_key(name), None)

    def _spawn(self, task: Coroutine[Any, Any, None]) -> None:
        self._tasks.append(asyncio.create_task(_log_end(task)))


async def _log_end(task: Coroutine[Any, Any, None]) -> None:
    try:
        await task
    except Exception as error:
        log.error("membership_task_failed", exc_info=error)
