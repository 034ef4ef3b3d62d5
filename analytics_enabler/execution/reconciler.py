"""The reconciler of deployments: plans and places tasks, and sets workers' desired fragments."""

import asyncio
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from analytics.plan.nodes import Plan
from analytics.plan.orders import Lease
from analytics_enabler.catalogue import DataCatalogue, SeriesIndex
from analytics_enabler.deployments.model import Generation
from analytics_enabler.deployments.service import Deployments
from analytics_enabler.execution.demand_estimates import DemandEstimates
from analytics_enabler.execution.desired_fragments import desired_fragments
from analytics_enabler.execution.group_placements import GroupPlacements, nodes_of
from analytics_enabler.execution.history import ExecutionHistory, LoadReasons, ObservedWorkers
from analytics_enabler.execution.orphans import OrphanedTasks
from analytics_enabler.execution.outages import Outage, failed_reconciliation
from analytics_enabler.execution.placement_preview import PlacementPreview
from analytics_enabler.execution.planner import PlannedSites, Planner
from analytics_enabler.execution.point_access import PointAccess
from analytics_enabler.execution.point_rates import PointRates
from analytics_enabler.execution.source_quality import SourceQualities
from analytics_enabler.execution.status import ExecutionStatus
from analytics_enabler.execution.worker_reconcilers import (
    Connect,
    WorkerReconciler,
    WorkerReconcilers,
)
from analytics_enabler.fabric_view import FabricView
from analytics_enabler.fragments import Tasks
from analytics_enabler.groups import Group
from analytics_enabler.metrics import INSIGHTS, RECONCILE_ERRORS
from analytics_enabler.scheduling.driver.capacity import fit_running
from analytics_enabler.scheduling.driver.driver import (
    NodesByJob,
    PlacementDriver,
    checked_by_job,
)
from analytics_enabler.scheduling.driver.elasticity import CoresByTask, Elasticity
from analytics_enabler.scheduling.driver.jobs import job_of
from analytics_enabler.scheduling.driver.snapshot import (
    available_workers,
    fog_of,
    without_drained,
)
from analytics_enabler.scheduling.model.jobs import Job
from analytics_enabler.scheduling.model.snapshot import Fog
from mistbow.clock import Clock
from mistbow.domains import DEFAULT_DOMAIN
from mistbow.errors import FencedError, MistbowError, NotFoundError
from mistbow.fabric import Fabric
from mistbow.runtime.periodic import PeriodicTask, Schedule

DEBOUNCE_S = 0.2
"""The delay (s) after a change of deployments, so that several changes in a row cause one plan."""

INTERVAL_S = 0.5
"""The interval (s) of reconciliations.

The interval is short, so that the fragments of a dead worker run elsewhere within a second.
"""


@dataclass(frozen=True, slots=True)
class _Planned:
    """What follows from a plan of all tasks.

    ``made_for``: (version of the deployments, sites, sites without a worker for long) of the plan.
    ``jobs``: the jobs of the tasks, with the demands of the version ``estimated`` of the estimates.
    ``readable_jobs``: the jobs as they can be placed while only ``readable_sites`` are readable.
    ``is_ordered``: whether the desired fragments of the workers follow from the plan.
    """

    made_for: tuple[int, tuple[str, ...], frozenset[str]]
    estimated: int = 0
    jobs: Sequence[Job] = ()
    readable_sites: frozenset[str] | None = None
    readable_jobs: Sequence[Job] = ()
    is_ordered: bool = False

    def readable_with(self, access: PointAccess) -> "_Planned":
        """Return a copy with the ``readable_jobs`` of the sites that are readable now."""
        sites = access.readable_sites
        if sites == self.readable_sites:
            return self
        jobs = [access.readable(job) for job in self.jobs]
        return replace(self, readable_sites=sites, readable_jobs=jobs)


class Role(Protocol):
    """The role of the enabler in its domain."""

    async def update(self, rival_lease: Lease | None) -> bool:
        """Read the fabric, and return whether the enabler is active.

        ``rival_lease``: the greatest lease that workers obey instead of that of this enabler.
        """


class Reconciler:
    """Makes the workers run the deployed insights, at each change and every ``INTERVAL_S``."""

    def __init__(
        self,
        deployments: Deployments,
        fabric_view: FabricView,
        placements: GroupPlacements,
        planner: Planner,
        driver: PlacementDriver,
        catalogue: DataCatalogue,
        history: ExecutionHistory,
        connect: Connect,
        clock: Clock,
        role: Role,
        rates: PointRates,
        qualities: SourceQualities,
        domain: str = DEFAULT_DOMAIN,
    ) -> None:
        self._deployments = deployments
        self._fabric_view = fabric_view
        self._placements = placements
        self._planner = planner
        self._driver = driver
        self._catalogue = catalogue
        self._history = history
        self._task = PeriodicTask(
            self._attempt, Schedule("reconciliation", INTERVAL_S), clock=clock
        )
        self._clock = clock
        self._role = role
        self._workers = WorkerReconcilers(
            connect, domain, deployments.lease, self._task.wake, clock
        )
        self._qualities = qualities
        self.estimates = DemandEstimates(
            planner, self._workers, catalogue, rates, qualities, self._task.wake,
            lambda site: fabric_view.unreachable_since(site) is None,
        )  # fmt: skip
        self.status = ExecutionStatus(
            planner, placements, driver, self._workers, fabric_view, self.outage, clock
        )
        self._elasticity = Elasticity(clock)
        self._orphans = OrphanedTasks()
        self._planned: _Planned | None = None
        """What follows from the present plan; None: plan again."""
        self._has_awaited_series = False
        """Whether a plan has waited for the series of all sites."""
        deployments.on_change(self._task.wake)

    async def run(self) -> None:
        """Reconcile until cancelled."""
        self.estimates.task.start()
        try:
            await self._task.run()
        finally:
            await self.estimates.task.close()
            await self._workers.close()

    def running(self) -> Sequence[Generation]:
        """Return the generations that workers compute."""
        return self._deployments.running()

    async def preview_tasks(self, group: Group, plan: Plan) -> Tasks:
        """Return the tasks that a group would have with this plan."""
        return await self._planner.preview(group, plan, self._planned_sites())

    async def preview_placement(
        self, tasks: Mapping[Group, Tasks], fabric: Fabric, series: SeriesIndex
    ) -> PlacementPreview:
        """Return the decision that the schedulers would make if the groups had these tasks."""
        all_tasks = {**self._planner.tasks, **tasks}
        access = PointAccess(fabric)
        jobs = [
            access.readable(job_of(group, each, fabric.site, series, self.estimates.demand))
            for group, each in all_tasks.items()
        ]
        fog = self._driver.without_brief_losses(without_drained(self.fog(fabric)))
        current = self._placements.nodes()
        jobs = fit_running(self._elasticity.apply(jobs), fog, current)
        outcome = await self._driver.preview(jobs, fog, current)
        reasons = self._elasticity.reasons
        return PlacementPreview(outcome, {job.id: job for job in jobs}, fog, current, reasons)

    def node(self, node: str) -> WorkerReconciler:
        """Return the reconciler of a node; raises ``NotFoundError`` for an unknown node."""
        worker = self._workers.get(node)
        if worker is None:
            raise NotFoundError(f"there is no node {node!r}", hint="GET /api/fog lists the nodes.")
        return worker

    def fog(self, fabric: Fabric) -> Fog:
        """Return the snapshot of a fabric; schedulers receive it without the drained nodes."""
        workers = self._workers
        return fog_of(
            fabric,
            workers.dead,
            workers.suspected,
            workers.others_mb,
            self._clock(),
            self._qualities.sources,
        )

    async def _attempt(self) -> None:
        try:
            await self._reconcile()
        except Exception as error:
            RECONCILE_ERRORS.inc()
            if isinstance(error, FencedError):
                await self._reclaim()
            raise

    def outage(self) -> Outage | None:
        """Return the outage of the enabler itself; None: the last reconciliation succeeded."""
        since, error = self._task.failing_since, self._task.error
        return None if error is None else failed_reconciliation(since, error)

    async def _reclaim(self) -> None:
        # The enabler with the lease of the deployments must also have the lease of the placements.
        # If two enablers start at once, each may have claimed one of the two streams last.
        try:
            await self._deployments.lease()
        except MistbowError:
            return
        self._placements.reclaim()
        self._planned = None

    async def _reconcile(self) -> None:
        if not await self._role.update(self._workers.rival_lease):
            # Another enabler of the domain sends the orders, and places fragments.
            await self._workers.release()
            self._history.forget()
            self._orphans.forget()
            self._planned = None
            return
        planned = self._planned
        if planned is not None and planned.made_for[0] != self._deployments.version:
            await asyncio.sleep(DEBOUNCE_S)
        await self._deployments.refresh()
        await self._placements.refresh()
        self._history.begin(self._placements.by_group())
        self._fabric_view.add_sites(
            site for placement in self._placements.all() for site in placement.sites
        )
        fabric = self._fabric_view.fabric or await self._fabric_view.refresh()
        await self._workers.set_workers(
            {worker.name: (site.name, worker) for site, worker in available_workers(fabric)},
            {node for nodes in self._placements.nodes().values() for node in nodes.values()},
        )
        running = [each for each in self._deployments.all() if each.paused_at is None]
        INSIGHTS.set(sum(len(deployment.live) for deployment in running))
        planned = (await self._plan(fabric)).readable_with(PointAccess(fabric))
        self._planned = planned
        await self._apply_placement(fabric, planned)
        self._set_desired()
        self._planned = replace(planned, is_ordered=True)
        await self._driver.explain()
        self.status.observe(self._deployments.all())
        available = {worker.name: site.name for site, worker in available_workers(fabric)}
        workers = ObservedWorkers(available, self._workers.dead, self._workers.suspected)
        reasons = {**self._driver.reasons, **self._elasticity.reasons}
        load = LoadReasons(self._elasticity.hot_spots, reasons)
        self._history.observe(self._placements.by_group(), workers, load)
        await self._deployments.settle(self.status.settlement)

    def _planned_sites(self) -> PlannedSites:
        view = self._fabric_view
        own = view.sites[0] if view.fabric is None else view.fabric.site
        return PlannedSites(view.sites, own, view.workerless)

    async def _plan(self, fabric: Fabric) -> _Planned:
        """Return what follows from the present plan.

        All tasks are planned again if the deployments or sites have changed, or if the last plan
        failed.
        """
        sites = self._planned_sites()
        moved = {site for each in self._placements.all() for site in each.pane_sites}
        lasting = sites.workerless.long | (sites.workerless.confined & moved)
        plan_for = self._deployments.version, sites.names, lasting
        planned = self._planned
        if planned is not None and planned.made_for == plan_for:
            is_current = planned.estimated == self.estimates.version
            return planned if is_current else self._with_jobs(planned, fabric)
        self._planned = None
        generations = self._deployments.running()
        await self._planner.plan(generations, sites)
        if self._planner.tasks and not self._has_awaited_series:
            # Only once: later, the estimates read the series, without a delay of orders.
            self._has_awaited_series = True
            if self._catalogue.known_series is None:
                await self._catalogue.series()
        return self._with_jobs(_Planned(plan_for), fabric)

    def _with_jobs(self, planned: _Planned, fabric: Fabric) -> _Planned:
        """Return a copy with the jobs of all planned tasks, with the present demands."""
        version = self.estimates.version
        self.estimates.settle()
        series = self._catalogue.known_series or SeriesIndex()
        jobs = [
            job_of(group, tasks, fabric.site, series, self.estimates.demand)
            for group, tasks in self._planner.tasks.items()
        ]
        return replace(planned, estimated=version, jobs=jobs, readable_sites=None)

    async def _apply_placement(self, fabric: Fabric, planned: _Planned) -> None:
        fog = self.fog(fabric)
        drained = {node.name for node in fog.nodes if node.drained}
        suspected = {node.name for node in fog.nodes if node.suspected}
        unreachable = {site.name for site in fabric.sites if not site.reachable}
        current = self._placements.nodes()
        has_lost = self._orphans.observe(
            self._planner.tasks, current, self._workers.dead, self.status.is_written
        )
        if has_lost and planned.is_ordered:
            # A merge waits less for the site of an orphaned partial, wherever this task is placed.
            self._set_desired()
        placed = await self._place(planned.readable_jobs, without_drained(fog), current, drained)
        checked = checked_by_job(self._driver.outcome.decision.placement)
        decided = []
        for group, tasks in self._planner.tasks.items():
            placement = self._placements.get(group)
            if placement is not None:
                nodes = nodes_of(
                    tasks,
                    placed.get(group.id, {}),
                    placement.nodes,
                    unreachable=unreachable,
                    drained=drained,
                    suspected=suspected,
                )
                shares = checked.get(group.id, {})
                decided.append(placement.placed_on(nodes, self._clock(), shares))
        await self._placements.store(decided)
        # A worker that was considered dead may have answered meanwhile.
        self._orphans.forget_written(self._planner.tasks, self.status.is_written)
        # A last pane that a dead worker has written meanwhile ends the effect of the first note.
        self._orphans.note_placed()

    async def _place(
        self, jobs: Sequence[Job], fog: Fog, current: NodesByJob, drained: Collection[str]
    ) -> NodesByJob:
        """Return the placement of the jobs; tasks leave hot spots if others have room."""
        if self.estimates.is_calibrated:
            adapted = self._elasticity.adapt(jobs, fog, current, self._present_cores())
            adapted = fit_running(adapted, fog, current)
        else:
            adapted = fit_running(jobs, fog, current)
        nodes = await self._driver.place(adapted, fog, current, drained)
        if not self._elasticity.return_unplaced(nodes):
            return nodes
        adapted = fit_running(self._elasticity.apply(jobs), fog, current)
        return await self._driver.place(adapted, fog, current, drained)

    def _present_cores(self) -> CoresByTask:
        cores = self.estimates.present_cores
        return {
            (group.id, task): cores[fragment.id]
            for group, tasks in self._planner.tasks.items()
            for task, fragment in tasks.items()
            if fragment.id in cores
        }

    def _set_desired(self) -> None:
        workers = {each.worker.name: each for each in self._workers.all()}
        desired = desired_fragments(
            self._planner.tasks,
            self.status,
            self._placements.checked,
            self._orphans,
            workers,
            self._fabric_view.sites,
        )
        for name, worker in workers.items():
            worker.set_desired(desired[name])
