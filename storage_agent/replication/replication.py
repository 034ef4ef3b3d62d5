"""Replication at one site: what it wants copied and holds itself, and reading from copies."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from mistbow.clock import Clock
from mistbow.errors import ConflictError
from mistbow.settings import AgentSettings
from mistbow.tasks import end
from mistbow.telemetry import get_logger
from storage_agent.fabric.gathering import StandIn
from storage_agent.fabric.member import Member
from storage_agent.fabric.relay import READER
from storage_agent.monitoring.bodies import GetBody, HoldBody, QueryBody
from storage_agent.monitoring.catalogue import Catalogue
from storage_agent.replication.deciding import Decider
from storage_agent.replication.insights import Insights
from storage_agent.replication.moved import MovedPoints, MovedReplicas
from storage_agent.replication.moving import Mover
from storage_agent.replication.offering import Offers
from storage_agent.replication.policy import load
from storage_agent.replication.pulling import Puller
from storage_agent.replication.reads import Reads, asked_by
from storage_agent.replication.restrictions import Restrictions
from storage_agent.replication.standing_in import GetStandIn, QueryStandIn, StandIns
from storage_agent.replication.told import copies_of, kept_by
from storage_agent.replication.vital_signs import VitalSigns
from storage_agent.streams.housekeeping import Bound
from storage_agent.streams.streams import Streams

log = get_logger(__name__)

_MB = 2**20


class Replication:
    """The parts, put together; nothing here makes a write of this site wait."""

    def __init__(self, settings: AgentSettings, member: Member, clock: Clock) -> None:
        policy = load(settings.replication_policy) if settings.replication_policy else None
        self.member = member
        self.restrictions = Restrictions(settings.restrictions, member)
        self.moved = MovedPoints(member)
        self.offers = Offers(member, self.restrictions, self.moved, clock)
        self.puller = Puller(member, settings.home, settings.replica_free_mb * _MB, clock)
        self.reads = Reads(clock)
        self.insights = Insights(member, clock)
        self.moved_here = MovedReplicas(self.puller, durable=settings.durability != "memory")
        self.stand_ins = StandIns(member, self.puller, self.moved_here)
        signs = VitalSigns(member, clock)
        parts = self.offers, self.puller, self.reads, self.insights, self.restrictions, signs
        self.decider = Decider(member, parts, policy, settings.replication_every_ms, clock)
        after_ms = settings.move_after_s * 1000
        self._mover = Mover(member, self.offers, self.moved, after_ms, clock)
        self._every_s = settings.replication_every_ms / 1000
        self._signs = signs
        self._tasks: list[asyncio.Task[None]] = []

    def open(self, streams: Streams, catalogue: Catalogue, bound: Callable[[], Bound]) -> None:
        """Go on from what was told before; the member must be open.

        ``bound`` returns the room that streams may take.
        """
        self.restrictions.open()
        self._signs.open()
        self.offers.open(streams, catalogue)
        self.puller.open(streams)
        self._spawn(self.puller.run())
        self._spawn(self.decider.run(streams, bound))
        self._spawn(self._mover.run(streams, self._every_s))

    @property
    def is_open(self) -> bool:
        """Whether it goes on already."""
        return bool(self._tasks)

    async def close(self) -> None:
        """Stop following and deciding."""
        await end(self._tasks)

    def check_unused(self, site: str) -> None:
        """Raise ``ConflictError`` if a replica of a site is anywhere, or a copy is wanted at it."""
        near = self.member.neighbours
        # What is said by others that may be gone as well does not count.
        for at in (self.member.site, *(each.site for each in near if near.reachable(each.site))):
            told = self.member.told_by(at)
            for kept in kept_by(told):
                if kept.of == site:
                    raise ConflictError(
                        f"{at} holds a replica of {site}, which could not be read any more",
                        hint=f"DELETE /replication/replicas/{site}/{kept.id}?site={at}&force=true"
                        " deletes it.",
                    )
            for copy in copies_of(told):
                if copy.target == site and (copy.manual or copy.moved_to is not None):
                    raise ConflictError(
                        f"{at} wants {site} to hold a copy",
                        hint=f"DELETE /replication/copies/{copy.id}?site={at}&target={site}"
                        "&force=true withdraws it.",
                    )

    def count_read(self, body: GetBody) -> None:
        """Take note of who reads what here: the site whose agent asked, or this one."""
        self.reads.count(READER.get() or self.member.site, asked_by(body))

    def count_insight(self, body: HoldBody) -> None:
        """Take note of an insight that has this site's points held."""
        site = READER.get() or self.member.site
        self.insights.note(body.holder, site, body.for_ms, body.metrics)

    def stand_in(self, body: GetBody) -> StandIn:
        """Return what stands in for sites that a /get or a /query asks."""
        if isinstance(body, QueryBody):
            return QueryStandIn(self.stand_ins, body)
        return GetStandIn(self.stand_ins, body)

    def _spawn(self, part: Coroutine[Any, Any, None]) -> None:
        self._tasks.append(asyncio.create_task(part))
