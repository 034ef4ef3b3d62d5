"""This site's agent as a member of the fog: what it tells others, and what it knows of them."""

import asyncio
import secrets
import time
from collections.abc import Coroutine, Iterable
from typing import Any

import msgspec

from mistbow.clock import Clock
from mistbow.errors import ConflictError, NotFoundError
from mistbow.fabric import Fabric, Link, Site, Worker
from mistbow.labels import parse_labels
from mistbow.settings import AgentSettings
from mistbow.tasks import end
from mistbow.telemetry import get_logger
from storage_agent.fabric import facts
from storage_agent.fabric.facts import LinkFacts, SiteFacts
from storage_agent.fabric.greeter import Greeter
from storage_agent.fabric.greeting import Greeting
from storage_agent.fabric.journal import Journal
from storage_agent.fabric.neighbours import Neighbour, Neighbours
from storage_agent.fabric.network import Network
from storage_agent.fabric.replicas import Replicas
from storage_agent.fabric.workers import Workers
from storage_agent.monitoring.catalogue import Catalogue, Metadata, Series, series_key, series_of
from storage_agent.streams.streams import Streams

log = get_logger(__name__)

_LOOK_S = 0.25
_CLEAR_PART = 0.2
_CLEAR_MS = 1.0
_MOST_NODE = 500


class Member:
    """Joins what the parts of the fabric know; nothing here makes a write of this site wait."""

    def __init__(self, settings: AgentSettings, clock: Clock) -> None:
        self._about = SiteFacts(
            node=settings.node,
            url=settings.agent_url,
            region=settings.region,
            labels=parse_labels(settings.labels),
        )
        own = Greeting(
            site=settings.site,
            node=settings.node[:_MOST_NODE],
            url=settings.agent_url,
            instance=secrets.token_hex(8),
        )
        self.site = settings.site
        self.neighbours = Neighbours(own, settings.peer_urls, clock)
        self.network = Network(settings.site, self.neighbours, settings.token, settings.tls_ca)
        self._journal = Journal(clock)
        self._workers = Workers(time.monotonic)
        self._replicas = Replicas(self.neighbours, self.network, clock)
        self._greeter = Greeter(self.neighbours, self.network, self._tell_links)
        self._links: dict[str, float] = {}
        self._clock = clock
        self._forgotten: dict[str, int] = {}
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Begin to greet, whether or not there are streams yet."""
        self._spawn(self._greeter.run())

    async def open(self, streams: Streams, catalogue: Catalogue) -> None:
        """Take up streams, and what they tell from before; raises ``UnavailableError``."""
        await self._journal.open(streams)
        before = self._journal.facts
        for site in await self._replicas.open(streams):
            about = facts.site_facts(self._replicas.facts(site))
            if about is not None:
                self.neighbours.learn(site, about.node, about.url)
        self._forgotten = facts.forgotten(before) | self._forgotten
        self._journal.tell(facts.FORGOTTEN, self._forgotten or None)
        self._drop_forgotten()
        for target in facts.links(before).keys() - self._links.keys():
            self._journal.tell(facts.link_key(target), None)
        self._workers.recall(facts.workers(before))
        self._journal.tell(facts.SITE, self._about)
        self.tell_series(metadata for _, metadata in catalogue.all())
        self._spawn(self._journal.write())
        self._spawn(self._replicas.run())
        self._spawn(self._watch_workers())
        self._spawn(self._watch_forgotten())

    async def close(self) -> None:
        """Leave."""
        await end(self._tasks)
        await self.network.close()

    def tell_series(self, series: Iterable[Metadata]) -> None:
        """Tell of series that are new or changed."""
        for metadata in series:
            self._journal.tell(series_key(series_of(metadata)), metadata)

    def forget_series(self, series: Iterable[Series]) -> None:
        """Tell of series that are no more."""
        for each in series:
            self._journal.tell(series_key(each), None)

    def greeted(self, greeting: Greeting) -> Greeting:
        """Take another agent's greeting, and greet it; raises ``ConflictError``."""
        if self.neighbours.greeted(greeting):
            self._greeter.greet(greeting.url)
        return self.neighbours.greeting()

    def tell(self, key: str, event: Any) -> None:
        """Say what is so now of this site; None: the key is no more."""
        self._journal.tell(key, event)

    async def settled(self) -> None:
        """Return when all that was told is stored; raises ``UnavailableError`` if it is not yet."""
        await self._journal.settled()

    def told_by(self, site: str) -> facts.Facts:
        """Return what a site, this one or another, says of itself as far as it is known."""
        return self._journal.facts if site == self.site else self._replicas.facts(site)

    def store(self, site: str) -> str | None:
        """Return the name of the store that another site's facts are from, if it is known."""
        return self._replicas.store(site)

    def hear(self, worker: Worker) -> None:
        """Take a worker's announcement."""
        self._workers.hear(worker)
        self._journal.tell(facts.worker_key(worker.name), worker)

    def leave(self, name: str) -> None:
        """Let a worker go."""
        self._workers.leave(name)
        self._journal.tell(facts.worker_key(name), None)

    def check_gone(self, site: str) -> None:
        """Raise ``ConflictError`` while a site can be reached, ``NotFoundError`` if unknown."""
        if site == self.site or self.neighbours.reachable(site):
            raise ConflictError(
                f"the site {site} can be reached",
                hint="Only one that is gone for good can be forgotten: stop its agent first.",
            )
        if self.neighbours.get(site) is None:
            names = ", ".join(each.site for each in self.neighbours) or "none"
            raise NotFoundError(f"there is no site {site}", hint=f"Other sites are {names}.")

    async def forget(self, site: str) -> None:
        """Have a site be known no more, here and at others, until it greets one of them again."""
        self._forgotten[site] = self._clock()
        self._drop_forgotten()
        self._journal.tell(facts.FORGOTTEN, self._forgotten)
        await self.settled()

    def _drop_forgotten(self) -> None:
        told = dict(self._forgotten)
        for each in self.neighbours:
            for site, since in facts.forgotten(self.told_by(each.site)).items():
                told[site] = max(since, told.get(site, 0))
        told.pop(self.site, None)
        self.neighbours.forget(told)

    async def _watch_forgotten(self) -> None:
        while True:
            await asyncio.sleep(_LOOK_S)
            back = [each for each in self._forgotten if self.neighbours.get(each) is not None]
            if back:
                for site in back:
                    del self._forgotten[site]
                self._journal.tell(facts.FORGOTTEN, self._forgotten or None)
            self._drop_forgotten()

    def fabric(self) -> Fabric:
        """Return all that is known of the fog."""
        own = Site(
            name=self.site,
            **msgspec.structs.asdict(self._about),
            workers=self._workers.alive(),
        )
        others = [self._site(each) for each in self.neighbours]
        links = {
            each.name: facts.links(self.told_by(each.name)) for each in others if each.reachable
        }
        links[self.site] = self._links
        return Fabric(
            site=self.site,
            sites=tuple(sorted([own, *others], key=lambda site: site.name)),
            links=tuple(
                Link(source=source, target=target, latency_ms=latency)
                for source, latencies in sorted(links.items())
                for target, latency in sorted(latencies.items())
            ),
            forgotten=self.neighbours.forgotten,
        )

    def _site(self, known: Neighbour) -> Site:
        told = self.told_by(known.site)
        about = facts.site_facts(told) or SiteFacts(node=known.node, url=known.url)
        return Site(
            name=known.site,
            **msgspec.structs.asdict(about),
            reachable=self.neighbours.reachable(known.site),
            workers=facts.workers(told),
        )

    def _tell_links(self) -> None:
        """Tell of links that broke, that were measured first, or that are clearly different."""
        for known in self.neighbours:
            now, told = known.latency_ms, self._links.get(known.site)
            key = facts.link_key(known.site)
            if now is None:
                if self._links.pop(known.site, None) is not None:
                    self._journal.tell(key, None)
            elif told is None or abs(now - told) > max(_CLEAR_MS, _CLEAR_PART * told):
                self._links[known.site] = round(now, 3)
                self._journal.tell(key, LinkFacts(latency_ms=self._links[known.site]))

    async def _watch_workers(self) -> None:
        while True:
            await asyncio.sleep(_LOOK_S)
            for name in self._workers.expire():
                log.warning("a worker is dead", worker=name)
                self._journal.tell(facts.worker_key(name), None)

    def _spawn(self, part: Coroutine[Any, Any, None]) -> None:
        self._tasks.append(asyncio.create_task(_told_of(part)))


async def _told_of(part: Coroutine[Any, Any, None]) -> None:
    try:
        await part
    except Exception as error:
        log.error("a part of the fabric ended", exc_info=error)
