"""The explainer: returns the plan of a text, and the placement and traffic after its deployment."""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
from msgspec import UNSET

from analytics.insight_models import (
    ExplainedFragment,
    ExplainedGroup,
    Explanation,
    FragmentCostModel,
    PlacementPlan,
    PlannedMove,
)
from analytics.plan.fragments import Fragment, Merge, Partial, StreamLocation, Whole, kind_of
from analytics.plan.nodes import Plan
from analytics_enabler.catalogue import DataCatalogue, SeriesIndex
from analytics_enabler.deployments.model import Deployment, Generation
from analytics_enabler.execution import Reconciler
from analytics_enabler.execution.placement_preview import PlacementPreview
from analytics_enabler.execution.point_access import PointAccess
from analytics_enabler.execution.point_rates import PointRates
from analytics_enabler.explain.explanation import (
    added_by,
    explain,
    lines_of,
    new_part,
    plans_with,
)
from analytics_enabler.explain.placement_warnings import placement_warnings
from analytics_enabler.explain.savings import savings_of
from analytics_enabler.explain.summary import placement_summary
from analytics_enabler.explain.traffic import TrafficEstimates, stream_label
from analytics_enabler.fabric_view import FabricView
from analytics_enabler.fragments import Tasks, plans_of
from analytics_enabler.groups import Group
from analytics_enabler.scheduling.driver.jobs import request_name_of
from analytics_enabler.scheduling.model.demands import FragmentCost
from analytics_enabler.scheduling.sandbox.guard import Outcome
from analytics_enabler.semantics import Checked, Sites, sites_of
from grammar import Diagnostic
from mistbow.client.agent import AsyncAgentClient
from mistbow.domains import DEFAULT_DOMAIN
from mistbow.errors import MistbowError
from mistbow.fabric import Fabric

PATIENCE_S = 2.0


@dataclass(frozen=True, slots=True)
class _Preview:
    """The tasks of groups, the decision about them, and the series of all sites."""

    tasks: Mapping[Group, Tasks]
    placement: PlacementPreview
    series: SeriesIndex


class Explainer:
    """Explains texts, given the running insights, the workers and the measured rates."""

    def __init__(
        self,
        reconciler: Reconciler,
        fabric_view: FabricView,
        catalogue: DataCatalogue,
        agent: AsyncAgentClient,
        domain: str = DEFAULT_DOMAIN,
    ) -> None:
        self._reconciler = reconciler
        self._domain = domain
        self._fabric_view = fabric_view
        self._catalogue = catalogue
        self._rates = PointRates(agent)

    async def explain(self, checked: Checked, running: Sequence[Generation]) -> Explanation:
        """Return the explanation of a checked text.

        ``running``: the generations of the running insights, which can share computations with the
        text. While the fabric is unknown, the explanation has no placement.
        """
        fabric = self._fabric_view.fabric
        added = self._added(checked)
        plans = await asyncio.to_thread(plans_with, added, running)
        explanation = await asyncio.to_thread(explain, checked, added, plans)
        if fabric is None or not plans:
            return explanation
        groups = await self._groups(plans, await self._preview(plans, fabric), fabric)
        summary = [*explanation.summary, *placement_summary(groups)]
        return explanation.model_copy(update={"groups": groups, "summary": summary})

    async def plan(self, checked: Checked, running: Sequence[Generation]) -> PlacementPlan:
        """Return the placement of a checked text; see ``explain``."""
        fabric, problems = self._fabric_view.fabric, list(checked.problems)
        plans = await asyncio.to_thread(plans_with, self._added(checked), running)
        if fabric is None or not plans:
            return PlacementPlan(problems=problems)
        preview = await self._preview(plans, fabric)
        groups = await self._groups(plans, preview, fabric)
        moves = await asyncio.to_thread(_moves, preview.placement)
        return PlacementPlan(problems=problems, groups=groups, moves=moves)

    def _added(self, checked: Checked) -> list[Generation]:
        whole = self._fabric_view.whole
        return added_by(checked, Sites() if whole is None else sites_of(whole), self._domain)

    async def warnings(
        self, deployment: Deployment, running: Sequence[Generation]
    ) -> list[Diagnostic]:
        """Return a warning for each site whose points are read from elsewhere, or not at all.

        ``running``: the generations of all running insights. While the fabric or the placement is
        unknown, there are no warnings.
        """
        fabric = self._fabric_view.fabric
        groups = {generation.group for generation in deployment.live}
        if fabric is None or not _may_read_remotely(groups, fabric):
            return []
        plans = await asyncio.to_thread(plans_of, (g for g in running if g.group in groups))
        try:
            async with asyncio.timeout(PATIENCE_S):
                preview = await self._preview(plans, fabric)
        except (MistbowError, TimeoutError):
            return []
        return placement_warnings(preview.tasks, preview.placement.outcome, fabric)

    async def _preview(self, plans: Mapping[Group, Plan], fabric: Fabric) -> _Preview:
        series = await self._catalogue.series() or SeriesIndex()
        tasks = {g: await self._reconciler.preview_tasks(g, plan) for g, plan in plans.items()}
        fragments = [fragment for each in tasks.values() for fragment in each.values()]
        await self._reconciler.estimates.prepare(fragments)
        placement = await self._reconciler.preview_placement(tasks, fabric, series)
        return _Preview(tasks, placement, series)

    async def _groups(
        self, plans: Mapping[Group, Plan], preview: _Preview, fabric: Fabric
    ) -> list[ExplainedGroup]:
        tasks, series, access = preview.tasks, preview.series, PointAccess(fabric)
        outcome = preview.placement.outcome
        rates = await self._point_rates(tasks.values())
        groups = []
        for group, plan in plans.items():
            placed = preview.placement.nodes.get(group.id, {})
            measured = self._reconciler.status.bytes_per_s
            traffic = TrafficEstimates(series, rates, _sites_of(placed, fabric), measured)
            edges = traffic.edges(tasks[group])
            cap = group.options.cap
            groups.append(
                ExplainedGroup(
                    id=group.id,
                    scheduler=group.scheduler,
                    insights=len(plan.insights),
                    fragments=[
                        self._fragment(fragment, placed.get(task), plan, fabric).model_copy(
                            update=_demand(preview.placement, group, task)
                        )
                        for task, fragment in tasks[group].items()
                    ],
                    edges=edges,
                    savings=savings_of(tasks[group], edges, traffic),
                    refusals=_refusals(group, outcome),
                    remote_reads=list(access.remote_reads(tasks[group], placed)),
                    problem=outcome.problems.get(request_name_of(group)),
                    cost_per_hour=outcome.costs.get(group.id),
                    cost_cap_per_hour=None if cap is None else cap.per_hour,
                    latency_ms=preview.placement.latency_ms(group.id),
                )
            )
        return groups

    def _fragment(
        self, fragment: Fragment, node: str | None, plan: Plan, fabric: Fabric
    ) -> ExplainedFragment:
        part, estimates = new_part(plan), self._reconciler.estimates
        feed = fragment.source.feed if isinstance(fragment, Whole) else UNSET
        feeds = {} if feed is UNSET else {insight.uid: feed for insight in part.insights}
        lines = lines_of(part, feeds)
        return ExplainedFragment(
            id=fragment.id,
            kind=kind_of(fragment),
            sources=[stream_label(location) for location in fragment.sources],
            target=stream_label(fragment.target),
            worker=node,
            site=_site_of(node, fabric),
            running=self._reconciler.status.is_running(fragment.id),
            plan=_lines_for(fragment, lines),
            estimated=_cost(estimates.first_estimate(fragment) or estimates.estimated(fragment)),
            measured=_cost(estimates.measured_version(fragment)),
        )

    async def _point_rates(self, tasks: Iterable[Tasks]) -> dict[StreamLocation, float]:
        """Return stream -> rows per second, for the streams of points that fragments read.

        Streams without a measurement are omitted.
        """
        read = {
            fragment.source
            for each in tasks
            for fragment in each.values()
            if not isinstance(fragment, Merge)
        }
        return await self._rates.measure(read)


def _may_read_remotely(groups: Iterable[Group], fabric: Fabric) -> bool:
    """Return whether a worker may have to read the points of another site."""
    is_confined = any(group.options.confined is not None for group in groups)
    return is_confined or not all(site.workers for site in fabric.sites)


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


def _demand(placement: PlacementPreview, group: Group, name: str) -> dict[str, Any]:
    """Return the fields of an explained fragment that describe its demand and its latency."""
    task = placement.task(group.id, name)
    node = placement.nodes.get(group.id, {}).get(name)
    latency = placement.data_latency_ms(group.id, name, node)
    return {
        "cores": task.cores,
        "memory_mb": task.memory_mb,
        "data_latency_ms": latency,
        "checked": placement.checked.get(group.id, {}).get(name, 0.0),
    }


def _cost(cost: FragmentCost | None) -> FragmentCostModel | None:
    return None if cost is None else FragmentCostModel.model_validate(msgspec.to_builtins(cost))


def _moves(placement: PlacementPreview) -> list[PlannedMove]:
    """Return the running fragments whose workers the decision would change."""
    reasons = placement.reasons
    return [
        PlannedMove(
            group=job, task=task, from_worker=node, to_worker=after, why=reasons.get((job, task))
        )
        for job, tasks in sorted(placement.current.items())
        if job in placement.jobs
        for task, node in sorted(tasks.items())
        if (after := placement.nodes.get(job, {}).get(task)) != node
    ]


def _refusals(group: Group, outcome: Outcome) -> list[str]:
    return [
        f"{refusal.task}{'' if refusal.node is None else f' not on {refusal.node}'}: "
        f"{refusal.reason}"
        for refusal in outcome.decision.refusals
        if refusal.job == group.id
    ]
