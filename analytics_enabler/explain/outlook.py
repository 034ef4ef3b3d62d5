"""Where a text would run, and how much would cross between sites."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

from analytics_enabler.catalogue import Catalogue
from analytics_enabler.deployments.model import Generation
from analytics_enabler.execution import Execution
from analytics_enabler.explain.explanation import (
    added_by,
    explain,
    lines_of,
    new_part,
    plans_with,
)
from analytics_enabler.fragments import MERGE, Tasks
from analytics_enabler.groups import Group
from analytics_enabler.landscape import Landscape
from analytics_enabler.placing.jobs import question_of
from analytics_enabler.placing.placer import places_of
from analytics_enabler.placing.traffic import (
    POINT_BYTES,
    POINTS_PER_S,
    Series,
    expected_rate,
    matching,
)
from analytics_enabler.semantics import Checked, Sites, sites_of
from mistbow.client.agent import AsyncAgentClient
from mistbow.errors import MistbowError
from mistbow.fabric import Fabric
from mistbow.insights import ExplainedEdge, ExplainedFragment, ExplainedGroup, Explanation
from mistbow.plan.fragments import Fragment, Merge, Partial, Place
from mistbow.plan.nodes import Plan
from mistbow.schedulers.guard import Outcome
from mistbow.streams.schemas import RAW

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
        return [
            ExplainedGroup(
                id=group.id,
                scheduler=group.scheduler,
                insights=len(plan.insights),
                fragments=[
                    self._fragment(fragment, nodes.get(group.id, {}).get(task), plan, fabric)
                    for task, fragment in tasks[group].items()
                ],
                edges=self._edges(tasks[group], nodes.get(group.id, {}), series, rates, fabric),
                refusals=_refusals(group, outcome),
                problem=outcome.problems.get(question_of(group)),
                cost_per_hour=outcome.costs.get(group.id),
                cost_cap_per_hour=_cap(group),
            )
            for group, plan in plans.items()
        ]

    def _fragment(
        self, fragment: Fragment, node: str | None, plan: Plan, fabric: Fabric
    ) -> ExplainedFragment:
        part = new_part(plan)
        lines = lines_of(part)
        sources = fragment.sources if isinstance(fragment, Merge) else (fragment.source,)
        return ExplainedFragment(
            id=fragment.id,
            kind=_kind(fragment),
            sources=[_told(place) for place in sources],
            target=_told(fragment.target),
            worker=node,
            site=_site_of(node, fabric),
            running=self._execution.runs(fragment.id),
            plan=_lines_for(fragment, lines),
        )

    def _edges(
        self,
        tasks: Tasks,
        nodes: Mapping[str, str],
        series: Sequence[Series],
        rates: Mapping[str, float],
        fabric: Fabric,
    ) -> list[ExplainedEdge]:
        merged_at = _site_of(nodes.get(MERGE), fabric)
        edges = []
        for fragment in tasks.values():
            if isinstance(fragment, Partial):
                site = fragment.source.site
                here = [one for one in series if one.site == site]
                share = len(matching(fragment.panes, here)) / max(len(here), 1)
                points = rates.get(site)
                of_each = POINTS_PER_S if points is None else points / max(len(here), 1)
                edges.append(
                    ExplainedEdge(
                        site=site,
                        is_local=site == merged_at,
                        expected=expected_rate(fragment, series, of_each),
                        measured=self._execution.measured(fragment.id),
                        raw=None if points is None else points * share * POINT_BYTES,
                    )
                )
        return edges

    async def _point_rates(self, tasks: Iterable[Tasks]) -> dict[str, float]:
        """Return how many points a second have come lately at each site that tells."""
        partials = {
            fragment.source.site
            for each in tasks
            for fragment in each.values()
            if isinstance(fragment, Partial)
        }
        sites = sorted(partials)
        rates = await asyncio.gather(*(self._point_rate(site) for site in sites))
        return {site: rate for site, rate in zip(sites, rates, strict=True) if rate is not None}

    async def _point_rate(self, site: str) -> float | None:
        agent = self._agent.at(site)
        try:
            async with asyncio.timeout(PATIENCE_S):
                info = await agent.info(RAW)
                before = await agent.seek(RAW, info.frontier - LATELY_MS)
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


def _told(place: Place) -> str:
    return f"{place.site}/{place.stream}"


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
