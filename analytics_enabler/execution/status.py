"""The status of deployments, derived from the desired and the observed state of fragments."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from analytics.plan.fragments import Fragment, Partial
from analytics.plan.status import FragmentStatus
from analytics_enabler.deployments.model import Deployment, Generation
from analytics_enabler.execution.group_placements import GroupPlacements
from analytics_enabler.execution.outages import (
    Outage,
    failed_fragment,
    failed_scheduler,
    in_order,
    lost_worker,
    overloaded_fragment,
    site_without_worker,
    unplaced_task,
    unreachable_site,
)
from analytics_enabler.execution.planner import Planner
from analytics_enabler.execution.progress import (
    Progress,
    ProgressReport,
    overload,
    progress_of,
    runs,
    worst,
)
from analytics_enabler.execution.reports import DeploymentReport, InsightReport
from analytics_enabler.execution.worker_reconcilers import WorkerReconciler, WorkerReconcilers
from analytics_enabler.fabric_view import FabricView
from analytics_enabler.fragments import Tasks, data_site, result_task
from analytics_enabler.groups import Group
from analytics_enabler.onsets import Onsets
from analytics_enabler.scheduling.driver.driver import PlacementDriver
from analytics_enabler.scheduling.driver.jobs import request_name_of
from mistbow.clock import Clock


class ExecutionStatus:
    """Reads the status of insights, groups and fragments.

    ``reconciliation_outage``: returns the outage of the enabler itself if its last reconciliation
    failed, or None after a success.
    """

    def __init__(
        self,
        planner: Planner,
        placements: GroupPlacements,
        driver: PlacementDriver,
        workers: WorkerReconcilers,
        fabric_view: FabricView,
        reconciliation_outage: Callable[[], Outage | None],
        clock: Clock,
    ) -> None:
        self._planner = planner
        self._placements = placements
        self._driver = driver
        self._workers = workers
        self._fabric_view = fabric_view
        self._reconciliation_outage = reconciliation_outage
        self._unplaced = Onsets[tuple[str, str]](clock)
        self._failed_schedulers = Onsets[str](clock)
        self._computed: dict[Group, tuple[str, frozenset[str]]] = {}
        """Group -> (fingerprint of the last version that ran, uids of its insights)."""

    def observe(self) -> None:
        """Record which tasks are not placed and which schedulers fail, for the times of outages."""
        self._unplaced.update(
            (group.id, task)
            for group, tasks in self._planner.tasks.items()
            for task in tasks
            if self.node(group, task) is None
        )
        self._failed_schedulers.update(self._driver.outcome.problems)
        tasks = self._planner.tasks
        self._computed = {group: each for group, each in self._computed.items() if group in tasks}
        for group in tasks:
            self._observe_version(group, tasks[group])

    def _observe_version(self, group: Group, tasks: Tasks) -> None:
        task = result_task(tasks)
        fragment, status = tasks[task], self.fragment(group, task)
        if isinstance(fragment, Partial) or status is None or not runs(status, fragment):
            return
        if self._computed.get(group, ("",))[0] != fragment.fingerprint:
            uids = frozenset(insight.uid for insight in fragment.plan.insights)
            self._computed[group] = fragment.fingerprint, uids

    def report(self, deployment: Deployment) -> DeploymentReport:
        """Return the progress and the problems of a deployment and its insights."""
        outages = {
            group: in_order(self._outages(group))
            for group in {generation.group for generation in deployment.live}
        }
        return DeploymentReport(
            {
                generation.uid: self._report(generation, outages[generation.group])
                for generation in deployment.live
            }
        )

    def _report(self, generation: Generation, outages: Sequence[Outage]) -> InsightReport:
        group = generation.group
        tasks = self._planner.tasks.get(group, ())
        statuses = [status for task in tasks if (status := self.fragment(group, task)) is not None]
        progress = worst([ProgressReport(self._progress(generation)), *overload(statuses)])
        if progress.progress in (Progress.FAILED, Progress.WAITING):
            progress = replace(progress, since=next((each.since for each in outages), None))
        problems = tuple(f"{generation.name}: {each}" for each in self._troubles(generation))
        return InsightReport(progress, tuple(outages), problems)

    def node(self, group: Group, task: str) -> str | None:
        """Return the node that a task is placed on; None if the task is not placed."""
        placement = self._placements.get(group)
        return None if placement is None else placement.nodes.get(task)

    def fragment(self, group: Group, task: str) -> FragmentStatus | None:
        """Return the observed status of a task's fragment; None: no worker runs the fragment."""
        worker = self._worker(group, task)
        fragment = self._planner.tasks.get(group, {}).get(task)
        if worker is None or fragment is None:
            return None
        return worker.observed.get(fragment.id)

    def is_running(self, fragment_id: str) -> bool:
        """Return whether any worker runs a fragment."""
        return any(fragment_id in worker.observed for worker in self._workers.all())

    def bytes_per_s(self, fragment_id: str) -> float | None:
        """Return the bytes per second that a fragment writes, as measured over the last minute.

        Return None if the fragment does not run, or the rate is not measured yet.
        """
        for worker in self._workers.all():
            if fragment_id in worker.meters:
                return worker.meters[fragment_id].rate
        return None

    def has_taken_over(self, group: Group, tasks: Tasks) -> bool:
        """Return whether the desired version of the fragment that writes the results runs."""
        task = result_task(tasks)
        status = self.fragment(group, task)
        return status is not None and status.active == tasks[task].fingerprint

    def frontiers(self) -> Iterator[tuple[Group, int]]:
        """Yield (group, frontier of the group's results in ms) for each up-to-date group.

        A group is up to date if the desired version of the fragment that writes the results runs.
        """
        for group, tasks in self._planner.tasks.items():
            task = result_task(tasks)
            status = self.fragment(group, task)
            if status is not None and runs(status, tasks[task]):
                yield group, status.frontier

    def _progress(self, generation: Generation) -> Progress:
        group = generation.group
        tasks = self._planner.tasks.get(group)
        if tasks is None:
            return Progress.STARTING if self._reconciliation_outage() is None else Progress.WAITING
        task = result_task(tasks)
        if self.node(group, task) is None:
            is_refused = any(self._refusals(group, task))
            return Progress.WAITING if is_refused else Progress.STARTING
        worker = self._worker(group, task)
        if worker is None or (worker.outage is not None and not worker.observed):
            return Progress.WAITING
        status = worker.observed.get(group.id)
        self._observe_version(group, tasks)
        former, uids = self._computed.get(group, (None, frozenset()))
        goes_on = status is not None and status.active == former and generation.uid in uids
        return progress_of(generation, tasks[task], status, in_former_version=goes_on)

    def _outages(self, group: Group) -> Iterator[Outage]:
        reconciliation = self._reconciliation_outage()
        if reconciliation is not None:
            yield reconciliation
        request = request_name_of(group)
        problem = self._driver.outcome.problems.get(request)
        if problem is not None:
            yield failed_scheduler(request, self._failed_schedulers.get(request), problem)
        for task, fragment in self._planner.tasks.get(group, {}).items():
            node = self.node(group, task)
            if node is not None:
                yield from self._outages_on(node, fragment)
            elif (reasons := list(self._refusals(group, task))) and problem is None:
                yield from self._outages_of_unplaced(group, task, fragment, reasons)

    def _outages_on(self, node: str, fragment: Fragment) -> Iterator[Outage]:
        """Yield the outages of a fragment that is placed on a worker."""
        worker = self._workers.get(node)
        site = data_site(fragment)
        if worker is None:
            if site is not None and self._fabric_view.unreachable_since(site) is not None:
                yield self._cut(site, fragment, node)
            else:
                yield lost_worker(node)
            return
        if worker.outage is not None:
            yield worker.outage
        status = worker.observed.get(fragment.id)
        if status is not None:
            if status.error is not None or status.state in ("failed", "fenced"):
                yield failed_fragment(node, status)
            overloaded = overloaded_fragment(node, status)
            if overloaded is not None:
                yield overloaded

    def _outages_of_unplaced(
        self, group: Group, task: str, fragment: Fragment, reasons: Sequence[str]
    ) -> Iterator[Outage]:
        """Yield the outages because of which no worker runs a task."""
        site = data_site(fragment)
        if site is not None and self._fabric_view.unreachable_since(site) is not None:
            yield self._cut(site, fragment, None)
            return
        if site is not None and self._fabric_view.workerless_since(site) is not None:
            since = self._fabric_view.workerless_since(site)
            yield site_without_worker(site, since, self._fabric_view.last_workers(site))
            return
        names = () if site is None else self._fabric_view.last_workers(site)
        found = [worker for name in names if (worker := self._workers.get(name)) is not None]
        silent = [worker.outage for worker in found if worker.outage is not None]
        yield from silent
        if not silent:
            yield unplaced_task(group.id, task, self._unplaced.get((group.id, task)), reasons)

    def _cut(self, site: str, fragment: Fragment, worker: str | None) -> Outage:
        """Return the outage of an unreachable site; ``worker``: the one that runs the fragment."""
        fabric = self._fabric_view.fabric
        own_site = "of the enabler" if fabric is None else fabric.site
        if isinstance(fragment, Partial):
            consequence = "Results lack its points, and are corrected when it is back"
        elif worker is None:
            consequence = "The insights of this site start when it is back"
        else:
            consequence = (
                f"Its worker {worker} continues alone, and its results are readable when it is back"
            )
        since = self._fabric_view.unreachable_since(site)
        return unreachable_site(site, since, own_site, consequence)

    def _troubles(self, generation: Generation) -> Iterator[str]:
        for task in self._planner.tasks.get(generation.group, ()):
            status = self.fragment(generation.group, task)
            if status is not None and generation.uid in status.troubles:
                yield status.troubles[generation.uid]

    def _refusals(self, group: Group, task: str) -> Iterator[str]:
        for refusal in self._driver.refusals(group.id):
            if refusal.task == task:
                on_node = "" if refusal.node is None else f"{refusal.node}: "
                yield f"{on_node}{refusal.reason}"

    def _worker(self, group: Group, task: str) -> WorkerReconciler | None:
        node = self.node(group, task)
        return None if node is None else self._workers.get(node)
