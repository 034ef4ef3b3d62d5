"""Asking the policy, every few seconds, which copies of this site's data there are to be."""

import asyncio
import math
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from mistbow.clock import Clock
from mistbow.fabric import Site
from mistbow.streams.schemas import RAW
from mistbow.telemetry import get_logger
from storage_agent.fabric.member import Member
from storage_agent.replication.fragile_first import is_fragile
from storage_agent.replication.insights import Insights
from storage_agent.replication.offering import Offers, Want
from storage_agent.replication.pulling import Puller
from storage_agent.replication.reads import Reads
from storage_agent.replication.restrictions import Restrictions
from storage_agent.replication.told import health_of, kept_by
from storage_agent.replication.view import Policy, Read, SiteView, View
from storage_agent.replication.vital_signs import VitalSigns, stability
from storage_agent.streams.housekeeping import Bound
from storage_agent.streams.streams import RECORDS, Streams

log = get_logger(__name__)

_BUSY_S = 30.0
"""Work that was done so long ago counts for a third of what is done now."""


@dataclass(frozen=True, slots=True)
class _Look:
    """What was counted when: seconds, of them those that the agent's thread worked, and points."""

    at: float
    worked: float
    head: int


class Decider:
    """Looks around, and has the policy's decisions told; without a policy it only looks."""

    def __init__(
        self,
        member: Member,
        parts: tuple[Offers, Puller, Reads, Insights, Restrictions, VitalSigns],
        policy: Policy | None,
        every_ms: int,
        clock: Clock,
    ) -> None:
        self._member = member
        self._offers, self._puller, self._reads, self._insights = parts[:4]
        self._restrictions, self._signs = parts[4:]
        self._policy = policy
        self._every_s = every_ms / 1000
        self._clock = clock
        self._before: _Look | None = None
        self._load = 0.0
        self._busy = 0.0
        self._had_workers = clock()

    async def run(self, streams: Streams, bound: Callable[[], Bound]) -> None:
        """Decide again and again, for ever; ``bound`` returns the room that streams may take."""
        while True:
            try:
                await self._decide(streams, bound().most_bytes)
            except Exception as error:
                # A policy may be anybody's; what was decided before stays.
                log.error("the replication policy failed", exc_info=error)
            await asyncio.sleep(self._every_s)

    async def _decide(self, streams: Streams, most: int | None) -> None:
        raw = await streams.get(RAW)
        self._signs.look()
        self._measure(raw.log.head)
        room = await asyncio.to_thread(self._puller.room)
        self._signs.tell(room, self._load)
        self._offers.review()
        taken = sum(stream.log.index.bytes for stream in streams.all())
        records = [each.name for each in streams.all() if each.name.startswith(RECORDS)]
        seen = self.view(raw.log.index.bytes, taken, most, records)
        self._offers.fragile = is_fragile(seen)
        if self._policy is not None:
            wants = (Want.of(decision) for decision in self._policy.decide(seen))
            self._offers.decide(wants)

    def view(
        self,
        stored: int = 0,
        taken: int = 0,
        most: int | None = None,
        records: Iterable[str] = (),
    ) -> View:
        """Return the fog as it is now; the bytes and ``records`` are as in ``View``."""
        sites = {site.name: site for site in self._member.fabric().sites}
        if sites[self._member.site].workers:
            self._had_workers = self._clock()
        others = (self._seen(site) for name, site in sites.items() if name != self._member.site)
        return View(
            now=self._clock(),
            here=self._seen(sites[self._member.site]),
            others=tuple(others),
            reads=tuple(self._read()),
            insights=tuple(self._insights.running()),
            load=self._load,
            busy=self._busy,
            stored=stored,
            taken=taken,
            most=most,
            workerless_ms=self._clock() - self._had_workers,
            copies=self._offers.all(),
            rules=self._restrictions.rules,
            records=tuple(records),
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
        # This task's thread is the one that answers: no more can be done than fills its time.
        now = _Look(time.monotonic(), time.thread_time(), head)
        if (before := self._before) is not None and (passed := now.at - before.at) > 0:
            self._load = (head - before.head) / passed
            new = 1 - math.exp(-passed / _BUSY_S)
            self._busy += new * ((now.worked - before.worked) / passed - self._busy)
        self._before = now
