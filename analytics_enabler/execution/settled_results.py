"""The wait until results are settled: computed up to a time, from all points that have arrived."""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field

from analytics.plan.fragments import Merge
from analytics.plan.status import FragmentStatus
from analytics_enabler.deployments.model import Generation
from analytics_enabler.execution.lifecycle import GroupFacts, computing_status, state_of
from analytics_enabler.execution.status import ExecutionStatus
from analytics_enabler.groups import Group
from mistbow.client.agent import AsyncAgentClient
from mistbow.clock import time_words
from mistbow.errors import NotFoundError, UnavailableError

_POLL_S = 0.2
_UNKNOWN = 2**62

Generations = Callable[[], Collection[Generation]]


@dataclass(frozen=True, slots=True)
class SettledResults:
    """Waits until the results of generations are settled up to a time.

    They are settled when they are computed up to this time, and include all points that storage
    agents had acknowledged when the wait began.
    """

    status: ExecutionStatus
    agent: AsyncAgentClient

    async def wait(self, generations: Generations, until: int, seconds: float) -> list[str]:
        """Wait until the results are settled, at most for a time (s).

        Return why they are not settled; an empty list: they are settled. ``until``: the time (ms)
        up to which results are settled.
        """
        arrivals = _Arrivals(self.agent)
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        while True:
            reasons = await self._reasons(generations(), until, arrivals)
            if not reasons or loop.time() >= deadline:
                return reasons
            await asyncio.sleep(_POLL_S)

    async def _reasons(
        self, generations: Collection[Generation], until: int, arrivals: "_Arrivals"
    ) -> list[str]:
        by_group: dict[Group, list[tuple[Generation, int]]] = defaultdict(list)
        for each in generations:
            tick = last_time(each, until)
            if tick is not None and not each.settled:
                by_group[each.group].append((each, tick))
        reasons: list[str] = []
        for group, due in by_group.items():
            arrived = await arrivals.frontier(group, self.status)
            facts, uids = self.status.facts(group), self.status.planned_uids(group)
            for generation, tick in due:
                reason = (
                    unsettled(generation, facts, tick, arrived)
                    if generation.uid in uids
                    else "it is not planned yet"
                )
                if reason is not None:
                    reasons.append(f"{generation.name}: {reason}")
        return sorted(reasons)


def last_time(generation: Generation, until: int) -> int | None:
    """Return the time (ms) up to which a generation must be computed to have its results up to
    ``until``; None: it has no result up to this time.
    """
    end = until if generation.until is None else min(until, generation.until)
    ticks = generation.definition.ticks
    if generation.definition.each_point:
        # A worker computes the results at points at the next tick.
        return None if end <= generation.since else ticks.after(end - 1)
    tick = ticks.last(end)
    return None if tick <= generation.since else tick


def unsettled(
    generation: Generation, facts: GroupFacts, tick: int, arrived: int | None
) -> str | None:
    """Return why the results up to a tick (ms) are not settled; None: they are settled.

    ``arrived``: the frontier (ms) of the streams of points when the wait began; None: no point can
    be late.
    """
    computing = computing_status(generation, facts)
    if computing is None:
        return f"it is {state_of(generation, None, facts).state}"
    if computing.frontier < tick:
        return f"its results are computed up to {time_words(computing.frontier)}"
    if facts.missing:
        sites = ", ".join(sorted(each.site for each in facts.missing))
        return f"the points of these sites are missing: {sites}"
    if arrived == _UNKNOWN:
        return "a site with its points is unreachable"
    if arrived is not None and computing.corrected_until <= arrived:
        return _correction_words(generation, computing)
    return None


def _correction_words(generation: Generation, status: FragmentStatus) -> str:
    ticks = status.corrections_due.get(generation.uid)
    if ticks is None:
        return "it is not known yet whether points have arrived late"
    return f"late points change the results at {ticks} ticks"


@dataclass(slots=True)
class _Arrivals:
    """The frontiers of the streams of points, each read once, after the wait has begun."""

    agent: AsyncAgentClient
    frontiers: dict[tuple[str, str], int] = field(default_factory=dict)

    async def frontier(self, group: Group, status: ExecutionStatus) -> int | None:
        """Return the greatest frontier (ms) of the streams that a group reads."""
        frontiers = [await self._read(*each) for each in _point_streams(group, status)]
        return max(frontiers, default=None)

    async def _read(self, site: str, stream: str) -> int:
        if (site, stream) not in self.frontiers:
            try:
                info = await self.agent.at(site).info(stream)
            except NotFoundError:
                return 0
            except UnavailableError:
                return _UNKNOWN
            self.frontiers[site, stream] = info.frontier
        return self.frontiers[site, stream]


def _point_streams(group: Group, status: ExecutionStatus) -> Iterator[tuple[str, str]]:
    if group.feed is not None:
        return  # the rows of a feed are never late
    for fragment in status.fragments(group):
        if not isinstance(fragment, Merge):
            yield fragment.source.site, fragment.source.stream
