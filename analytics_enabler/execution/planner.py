"""From generations to fragments, with as little change to what runs as can be."""

import asyncio
from collections.abc import Sequence

import msgspec

from analytics_enabler.deployments.model import Generation
from analytics_enabler.execution.standing import Standing, Standings
from analytics_enabler.fragments import (
    Tasks,
    Version,
    over_sites,
    plans_of,
    version_for,
    whole,
)
from analytics_enabler.groups import Group
from mistbow.client.agent import AsyncAgentClient
from mistbow.errors import NotFoundError
from mistbow.plan.nodes import Plan


class Planner:
    """The tasks of each group that is deployed, as of the last planning."""

    def __init__(self, agent: AsyncAgentClient, standings: Standings, patience_ms: int) -> None:
        self._agent = agent
        self._standings = standings
        self.patience_ms = patience_ms
        self.tasks: dict[Group, Tasks] = {}

    async def plan(
        self, generations: Sequence[Generation], sites: tuple[str, ...], own: str
    ) -> None:
        """Plan for all that runs over these sites; results are kept at the site ``own``."""
        plans = await asyncio.to_thread(plans_of, generations)
        await self._standings.keep(plans)
        tasks: dict[Group, Tasks] = {}
        for group, plan in plans.items():
            standing = await self.standing(group, plan, sites)
            await self._standings.store(standing)
            tasks[group] = tasks_of(standing, plan, own, self.patience_ms)
        self.tasks = tasks

    async def standing(self, group: Group, plan: Plan, sites: tuple[str, ...]) -> Standing:
        """Return how a group of this plan is to run, which changes nothing yet."""
        old = self._standings.get(group) or Standing(group=group, sites=())
        if group.scope is not None:
            return msgspec.structs.replace(old, sites=(group.scope,))
        if len(sites) == 1:
            return msgspec.structs.replace(old, sites=sites)
        version = await self._version(group, plan, old.version)
        return msgspec.structs.replace(old, version=version, sites=sites)

    async def _version(self, group: Group, plan: Plan, running: Version | None) -> Version:
        try:
            info = await self._agent.info(group.results)
            needed = version_for(plan, info.frontier, info.attributes.get("outputs", ()))
        except NotFoundError:
            needed = version_for(plan, 0, ())
        return running if running is not None and running.serves(needed) else needed


def tasks_of(standing: Standing, plan: Plan, own: str, patience_ms: int) -> Tasks:
    """Return the tasks of a group that runs like this."""
    if standing.version is None:
        return whole(standing.group, plan, standing.sites[0])
    return over_sites(standing.group, plan, standing.version, standing.sites, own, patience_ms)
