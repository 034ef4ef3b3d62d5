"""Asking the policy, every few seconds, which copies of this site's points there are to be."""

import asyncio
import time
from collections.abc import Iterator

from mistbow.clock import Clock
from mistbow.fabric import Site
from mistbow.streams.schemas import RAW
from mistbow.telemetry import get_logger
from storage_agent.fabric.member import Member
from storage_agent.replication.offering import Offers, Want
from storage_agent.replication.pulling import Puller
from storage_agent.replication.reads import Reads
from storage_agent.replication.restrictions import Restrictions
from storage_agent.replication.told import health_of, kept_by
from storage_agent.replication.view import Policy, Read, SiteView, View
from storage_agent.replication.vital_signs import VitalSigns, stability
from storage_agent.streams.streams import Streams

log = get_logger(__name__)


class Decider:
    """Looks around, and has the policy's decisions told; without a policy it only looks."""

    def __init__(
        self,
        member: Member,
        parts: tuple[Offers, Puller, Reads, Restrictions, VitalSigns],
        policy: Policy | None,
        every_ms: int,
        clock: Clock,
    ) -> None:
        self._member = member
        self._offers, self._puller, self._reads, self._restrictions, self._signs = parts
        self._policy = policy
        self._every_s = every_ms / 1000
        self._clock = clock
        self._before: tuple[float, int] | None = None
        self._load = 0.0

    async def run(self, streams: Streams) -> None:
        """Decide again and again, for ever."""
        while True:
            try:
                await self._decide(streams)
            except Exception as error:
                # A policy may be anybody's; what was decided before stays.
                log.error("the replication policy failed", exc_info=error)
            await asyncio.sleep(self._every_s)

    async def _decide(self, streams: Streams) -> None:
        raw = await streams.get(RAW)
        self._signs.look()
        self._measure(raw.log.head)
        room = await asyncio.to_thread(self._puller.room)
        self._signs.tell(room, self._load)
        self._offers.review()
        if self._policy is not None:
            decisions = self._policy.decide(self.view(raw.log.index.bytes))
            self._offers.decide(
                Want(target=each.target, filter=each.filter, why=each.why) for each in decisions
            )

    def view(self, stored: int) -> View:
        """Return the fog as it is now; ``stored``: bytes of this site's points."""
        sites = {site.name: site for site in self._member.fabric().sites}
        others = (self._seen(site) for name, site in sites.items() if name != self._member.site)
        return View(
            now=self._clock(),
            here=self._seen(sites[self._member.site]),
            others=tuple(others),
            reads=tuple(self._read()),
            load=self._load,
            stored=stored,
            copies=self._offers.all(),
            rules=self._restrictions.rules,
        )

    def _seen(self, site: Site) -> SiteView:
        now, own = self._clock(), site.name == self._member.site
        known = self._member.neighbours.get(site.name)
        health = health_of(self._member.told_by(site.name))
        instability = self._signs.own(now) if own else self._signs.of(site.name, now)
        return SiteView(
            name=site.name,
            region=site.region,
            labels=site.labels,
            reachable=site.reachable,
            stability=stability(instability),
            latency_ms=None if known is None else known.latency_ms,
            usual_ms=self._signs.usual_ms(site.name),
            losses=self._signs.losses(site.name, now),
            room=None if health is None else health.room,
            load=0.0 if health is None else health.load,
            workers=len(site.workers),
        )

    def _read(self) -> Iterator[Read]:
        for by, wanted, often in self._reads.per_minute():
            yield Read(by, wanted, often)
        # What a replica answers does not come here any more, but is why it is there.
        for known in self._member.neighbours:
            for kept in kept_by(self._member.told_by(known.site)):
                if kept.of == self._member.site and kept.stream == RAW and kept.reads:
                    yield Read(known.site, kept.filter, kept.reads)

    def _measure(self, head: int) -> None:
        now = time.monotonic()
        if self._before is not None and now > self._before[0]:
            self._load = (head - self._before[1]) / (now - self._before[0])
        self._before = now, head
