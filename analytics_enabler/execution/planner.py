"""The planner: derives tasks from generations, and replaces partial fragments only if necessary."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from analytics.plan.nodes import Plan
from analytics.plan.target_attributes import TargetAttributes
from analytics_enabler.deployments.model import Generation
from analytics_enabler.execution.group_placements import GroupPlacement, GroupPlacements
from analytics_enabler.execution.pane_sites import must_move_panes, pane_sites
from analytics_enabler.fabric_view import WorkerlessSites
from analytics_enabler.fragments import (
    PartialsVersion,
    Tasks,
    over_sites,
    plans_of,
    required_version,
    whole,
)
from analytics_enabler.groups import Group
from mistbow.client.agent import AsyncAgentClient
from mistbow.errors import NotFoundError
from mistbow.runtime.tasks import cancel_and_wait

MAX_REQUESTS = 16
"""The maximum number of groups whose results are looked up at the same time.

Each look-up uses a connection to the storage agent, which checks of the lease and appends need too.
"""


@dataclass(frozen=True, slots=True)
class PlannedSites:
    """The sites for which tasks are planned.

    ``names``: the sites that a group reads if its ``scope`` names no site. ``own``: the site that
    stores the results of a group that reads several sites, and the panes of sites without a worker.
    """

    names: tuple[str, ...]
    own: str
    workerless: WorkerlessSites


class Planner:
    """Plans the tasks of all groups; ``tasks`` contains the result of the last call of ``plan``."""

    def __init__(
        self, agent: AsyncAgentClient, placements: GroupPlacements, patience_ms: int
    ) -> None:
        self._agent = agent
        self._placements = placements
        self._patience_ms = patience_ms
        self._limit = asyncio.Semaphore(MAX_REQUESTS)
        self.tasks: dict[Group, Tasks] = {}

    async def plan(self, generations: Sequence[Generation], sites: PlannedSites) -> None:
        """Plan the tasks of all running generations, and store the result in ``tasks``."""
        plans = await asyncio.to_thread(plans_of, generations)
        tasks = [
            asyncio.create_task(self._placement(group, plan, sites))
            for group, plan in plans.items()
        ]
        try:
            placements = await asyncio.gather(*tasks)
        finally:
            # After an error, the other look-ups would delay those of the next call.
            await cancel_and_wait(tasks)
        await self._placements.replace(placements)
        self.tasks = {
            group: self._tasks(placement, plan, sites.own)
            for (group, plan), placement in zip(plans.items(), placements, strict=True)
        }

    async def preview(self, group: Group, plan: Plan, sites: PlannedSites) -> Tasks:
        """Return the tasks that a group would have with this plan, without storing a change."""
        placement = await self._placement(group, plan, sites)
        return self._tasks(placement, plan, sites.own)

    async def _placement(self, group: Group, plan: Plan, sites: PlannedSites) -> GroupPlacement:
        old = self._placements.get(group) or GroupPlacement(group=group, sites=())
        if group.scope is not None:
            return msgspec.structs.replace(old, sites=(group.scope,))
        # After other sites were removed, a merge remains: only its decisions name these sites, so
        # a whole fragment would correct results without their points.
        if len(sites.names) == 1 and old.version is None:
            return msgspec.structs.replace(old, sites=sites.names)
        running = None if must_move_panes(old, sites.own, sites.workerless) else old.version
        version = await self._version(group, plan, running)
        former = old if version == running else None
        panes = pane_sites(former, sites.names, sites.own, sites.workerless)
        return msgspec.structs.replace(old, version=version, sites=sites.names, pane_sites=panes)

    async def _version(
        self, group: Group, plan: Plan, running: PartialsVersion | None
    ) -> PartialsVersion:
        try:
            async with self._limit:
                info = await self._agent.info(group.results)
            insights = TargetAttributes.of(info).insights or ()
            required = required_version(plan, info.frontier, insights)
        except NotFoundError:
            required = required_version(plan, 0, ())
        return running if running is not None and running.satisfies(required) else required

    def _tasks(self, placement: GroupPlacement, plan: Plan, own_site: str) -> Tasks:
        if placement.version is None:
            return whole(placement.group, plan, placement.sites[0])
        return over_sites(
            placement.group,
            plan,
            placement.version,
            placement.sites,
            own_site,
            self._patience_ms,
            placement.pane_sites,
        )
