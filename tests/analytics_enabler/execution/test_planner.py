"""The tasks of groups as sites come and go."""

import asyncio
from typing import Any, cast

import pytest

from analytics.plan.fragments import Merge, Partial, Whole
from analytics_enabler.deployments.model import Generation
from analytics_enabler.execution.group_placements import GroupPlacements
from analytics_enabler.execution.planner import MAX_REQUESTS, PlannedSites, Planner
from analytics_enabler.fabric_view import WorkerlessSites
from analytics_enabler.fragments import MERGE, WHOLE, Tasks
from analytics_enabler.groups import Group
from mistbow.client.agent import AsyncAgentClient
from mistbow.errors import NotFoundError, UnavailableError
from tests.analytics_enabler.support import MemoryJournal, deployment

ALL = Group(scope=None, scheduler="fair")
TWO_SITES = PlannedSites(("cloud", "edge"), "cloud", WorkerlessSites())


class AgentWithoutResults:
    """A storage agent without streams of results."""

    async def info(self, stream: str) -> Any:
        raise NotFoundError(f"there is no stream {stream}")


class AgentWithDelayedAnswers(AgentWithoutResults):
    """An agent that answers once it has received a number of requests."""

    def __init__(self, requests: int) -> None:
        self._barrier = asyncio.Barrier(requests)

    async def info(self, stream: str) -> Any:
        await self._barrier.wait()
        return await super().info(stream)


class CountingAgent(AgentWithoutResults):
    """An agent that counts the requests that wait for an answer; ``most``: at the same time."""

    def __init__(self) -> None:
        self._waiting = 0
        self.most = 0

    async def info(self, stream: str) -> Any:
        self._waiting += 1
        self.most = max(self.most, self._waiting)
        await asyncio.sleep(0)
        self._waiting -= 1
        return await super().info(stream)


class FailingAgent(AgentWithoutResults):
    """An agent that does not answer in time; ``requests``: the number of requests."""

    def __init__(self) -> None:
        self.requests = 0

    async def info(self, stream: str) -> Any:
        self.requests += 1
        await asyncio.sleep(0)
        raise UnavailableError("the agent does not answer")


def planner(agent: AgentWithoutResults | None = None) -> Planner:
    placements = GroupPlacements(cast("Any", MemoryJournal()), lambda: 0)
    return Planner(cast("AsyncAgentClient", agent or AgentWithoutResults()), placements, 5000)


async def planned(planner: Planner, text: str, *sites: str) -> Tasks:
    none = frozenset[str]()
    there = PlannedSites(sites, "cloud", WorkerlessSites(none, none, none))
    await planner.plan(deployment(text, 100_000).running, there)
    return planner.tasks[ALL]


async def test_group_over_the_only_site_is_whole() -> None:
    tasks = await planned(planner(), "a = COMPUTE AVG(x, 10 s) EVERY 5 s", "cloud")
    assert isinstance(tasks[WHOLE], Whole)


async def test_groups_are_planned_at_the_same_time() -> None:
    one = planner(AgentWithDelayedAnswers(2))
    text = "a = COMPUTE AVG(x, 10 s) EVERY 5 s"
    async with asyncio.timeout(5):
        await planned(one, f"{text}; b = {text[4:]} WITH SCHEDULER=latency", "cloud", "edge")
    assert {group.scheduler for group in one.tasks} == {"fair", "latency"}


def generations_of(groups: int) -> list[Generation]:
    """Return the generations of a deployment whose insights are of different groups."""
    text = "; ".join(
        f"i{each} = COMPUTE AVG(x, 10 s) EVERY 5 s WITH SCHEDULER=latency(margin={each / 100})"
        for each in range(groups)
    )
    return list(deployment(text, 100_000).running)


async def test_plan_of_many_groups_sends_a_limited_number_of_requests_at_the_same_time() -> None:
    agent = CountingAgent()
    one, number = planner(agent), 3 * MAX_REQUESTS
    await one.plan(generations_of(number), TWO_SITES)
    assert (len(one.tasks), agent.most) == (number, MAX_REQUESTS)


async def test_plan_that_fails_sends_no_further_requests() -> None:
    agent = FailingAgent()
    with pytest.raises(UnavailableError):
        await planner(agent).plan(generations_of(3 * MAX_REQUESTS), TWO_SITES)
    sent = agent.requests
    for _ in range(3 * MAX_REQUESTS):
        await asyncio.sleep(0)
    assert sent == agent.requests < 3 * MAX_REQUESTS


async def test_merge_whose_other_sites_were_removed_computes_the_panes_of_new_insights() -> None:
    one = planner()
    text = "a = COMPUTE AVG(x, 10 s) EVERY 5 s"
    before = await planned(one, text, "cloud", "edge")
    left = await planned(one, text, "cloud")
    assert left["at-cloud"] == before["at-cloud"]
    merge, partial = left[MERGE], left["at-cloud"]
    assert isinstance(merge, Merge)
    assert isinstance(partial, Partial)
    assert (merge.sources, merge.plan.panes) == ((partial.target,), partial.panes)

    more = await planned(one, f"{text}; b = COMPUTE MAX(y, 1 MINUTE) EVERY 5 s", "cloud")
    merge, partial = more[MERGE], more["at-cloud"]
    assert isinstance(merge, Merge)
    assert isinstance(partial, Partial)
    assert {pane.source.metric for pane in merge.plan.panes} == {"x", "y"}
    assert partial.panes == merge.plan.panes
