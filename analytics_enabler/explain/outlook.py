"""Where a text would run, and how much would cross between sites."""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Literal

from msgspec import UNSET

from analytics_enabler.catalogue import Catalogue
from analytics_enabler.deployments.model import Generation
from analytics_enabler.execution import Execution
from analytics_enabler.explain.edges import Flows, sources_of, told
from analytics_enabler.explain.explanation import (
    added_by,
    explain,
    lines_of,
    new_part,
    plans_with,
)
from analytics_enabler.explain.savings import savings_of
from analytics_enabler.fragments import Tasks
from analytics_enabler.groups import Group
from analytics_enabler.landscape import Landscape
from analytics_enabler.placing.jobs import question_of
from analytics_enabler.placing.placer import places_of
from analytics_enabler.semantics import Checked, Sites, sites_of
from mistbow.client.agent import AsyncAgentClient
from mistbow.errors import MistbowError
from mistbow.fabric import Fabric
from mistbow.insights import ExplainedFragment, ExplainedGroup, Explanation
from mistbow.plan.fragments import Fragment, Merge, Partial, Place, Whole
from mistbow.plan.nodes import Plan
from mistbow.schedulers.guard import Outcome

PATIENCE_S = 2.0
LATELY_MS = 60_000


class Outlook:
    """Explains texts as of now: what runs, the workers that there are, and the points that come."""

    def __init__(
        self,
        execution: Execution,
        landscape: Landscape,
        catalogue: Catalogue,
        agent: AsyncAgentClient,
    ) -> None:
        self._execution = execution
        self._landscape = landscape
        self._catalogue = catalogue
        self._agent = agent

    async def explain(self, checked: Checked, running: Sequence[Generation]) -> Explanation:
        """Say what a text becomes, what of it runs already, and where it would run."""
        fabric = self._landscape.fabric
        added = added_by(checked, Sites() if fabric is None else sites_of(fabric))
        plans = await asyncio.to_thread(plans_with, added, running)
        explanation = await asyncio.to_thread(explain, checked, added, plans)
        if fabric is None or not plans:
            return explanation
        groups = await self._groups(plans, fabric)
        return explanation.model_copy(update={"groups": groups})

    async def _groups(self, plans: Mapping[Group, Plan], fabric: Fabric) -> list[ExplainedGroup]:
        series = await self._catalogue.series() or ()
        tasks = {group: await self._execution.would_be(group, plans[group]) for group in plans}
        outcome = await self._execution.would_place(tasks, fabric, series)
        nodes = places_of(outcome.decision.placement)
        rates = await self._point_rates(tasks.values())
        found = []
        for group, plan in plans.items():
            placed = nodes.get(group.id, {})
            flows = Flows(series, rates, _sites_of(placed, fabric), self._execution.measured)
            edges = flows.edges(tasks[group])
            found.append(
                ExplainedGroup(
                    id=group.id,
                    scheduler=group.scheduler,
                    insights=len(plan.insights),
                    fragments=[
                        self._fragment(fragment, placed.get(task), plan, fabric)
                        for task, fragment in tasks[group].items()
                    ],
                    edges=edges,
                    savings=savings_of(tasks[group], edges, flows),
                    refusals=_refusals(group, outcome),
                    problem=outcome.problems.get(question_of(group)),
                    cost_per_hour=outcome.costs.get(group.id),
                    cost_cap_per_hour=_cap(group),
                )
            )
        return found

    def _fragment(
        self, fragment: Fragment, node: str | None, plan: Plan, fabric: Fabric
    ) -> ExplainedFragment:
        part = new_part(plan)
        feed = fragment.source.feed if isinstance(fragment, Whole) else UNSET
        feeds = {} if feed is UNSET else {insight.uid: feed for insight in part.insights}
        lines = lines_of(part, feeds)
        return ExplainedFragment(
            id=fragment.id,
            kind=_kind(fragment),
            sources=[told(place) for place in sources_of(fragment)],
            target=told(fragment.target),
            worker=node,
            site=_site_of(node, fabric),
            running=self._execution.runs(fragment.id),
            plan=_lines_for(fragment, lines),
        )

    async def _point_rates(self, tasks: Iterable[Tasks]) -> dict[Place, float]:
        """Return how many rows a second have come lately of each stream of points that tells."""
        read = {
            fragment.source
            for each in tasks
            for fragment in each.values()
            if not isinstance(fragment, Merge)
        }
        places = list(read)
        rates = await asyncio.gather(*(self._point_rate(place) for place in places))
        return {place: rate for place, rate in zip(places, rates, strict=True) if rate is not None}

    async def _point_rate(self, place: Place) -> float | None:
        agent = self._agent.at(place.site)
        try:
            async with asyncio.timeout(PATIENCE_S):
                info = await agent.info(place.stream)
                if info.frontier < LATELY_MS:
                    return None
                before = await agent.seek(place.stream, info.frontier - LATELY_MS)
        except (MistbowError, TimeoutError):
            return None
        return (info.head - before) * 1000 / LATELY_MS


def _kind(fragment: Fragment) -> Literal["whole", "partial", "merge"]:
    match fragment:
        case Partial():
            return "partial"
        case Merge():
            return "merge"
        case _:
            return "whole"


def _sites_of(nodes: Mapping[str, str], fabric: Fabric) -> Callable[[str], str | None]:
    return lambda task: _site_of(nodes.get(task), fabric)


def _site_of(node: str | None, fabric: Fabric) -> str | None:
    for site in fabric.sites:
        if any(worker.name == node for worker in site.workers):
            return site.name
    return None


def _lines_for(fragment: Fragment, lines: Sequence[str]) -> list[str]:
    match fragment:
        case Partial():
            return [line for line in lines if line.startswith("pane ")]
        case Merge():
            return [line for line in lines if not line.startswith("pane ")]
        case _:
            return list(lines)


def _cap(group: Group) -> float | None:
    return None if group.options.cap is None else group.options.cap.per_hour


def _refusals(group: Group, outcome: Outcome) -> list[str]:
    return [
        f"{refusal.task}{'' if refusal.node is None else f' not on {refusal.node}'}: "
        f"{refusal.reason}"
        for refusal in outcome.decision.refusals
        if refusal.job == group.id
    ]
