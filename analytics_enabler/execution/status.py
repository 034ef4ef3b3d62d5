"""The status of deployments, derived from the desired and the observed state of fragments."""

from collections.abc import Callable, Iterator

from analytics.plan.status import FragmentStatus
from analytics_enabler.deployments.model import Deployment, Generation
from analytics_enabler.execution.group_placements import GroupPlacements
from analytics_enabler.execution.planner import Planner
from analytics_enabler.execution.progress import (
    Progress,
    ProgressReport,
    overload,
    progress_of,
    runs,
    worst,
)
from analytics_enabler.execution.worker_reconcilers import WorkerReconciler, WorkerReconcilers
from analytics_enabler.fragments import Tasks, result_task
from analytics_enabler.groups import Group
from analytics_enabler.scheduling.driver.driver import PlacementDriver
from analytics_enabler.scheduling.driver.jobs import request_name_of


class ExecutionStatus:
    """Reads the status of insights, groups and fragments.

    ``problem``: returns the reason why the last reconciliation failed, or None after a success.
    """

    def __init__(
        self,
        planner: Planner,
        placements: GroupPlacements,
        driver: PlacementDriver,
        workers: WorkerReconcilers,
        problem: Callable[[], str | None],
    ) -> None:
        self._planner = planner
        self._placements = placements
        self._driver = driver
        self._workers = workers
        self._problem = problem

    def progress(self, generation: Generation) -> ProgressReport:
        """Return the progress of an insight."""
        group = generation.group
        tasks = self._planner.tasks.get(group, ())
        statuses = [status for task in tasks if (status := self.fragment(group, task)) is not None]
        return worst([ProgressReport(self._progress(generation)), *overload(statuses)])

    def summary(self, deployment: Deployment) -> ProgressReport:
        """Return the progress of a deployment, which is the worst progress of its insights."""
        return worst([self.progress(generation) for generation in deployment.live])

    def error(self, deployment: Deployment) -> str | None:
        """Return the problem of a deployment as a text; None: there is no problem.

        If the insights of the deployment have several problems, the first in alphabetical order is
        returned. If the insights have no problem, the problem of the reconciler is returned.
        """
        groups = {generation.group for generation in deployment.live}
        errors = [error for group in groups for error in self._errors(group)]
        errors += [
            f"{generation.name}: {problem}"
            for generation in deployment.live
            for problem in self._operator_problems(generation)
        ]
        return min(errors, default=self._problem())

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
            return Progress.STARTING if self._problem() is None else Progress.WAITING
        task = result_task(tasks)
        if self.node(group, task) is None:
            is_refused = any(self._refusals(group, task))
            return Progress.WAITING if is_refused else Progress.STARTING
        worker = self._worker(group, task)
        if worker is None or (worker.problem is not None and not worker.observed):
            return Progress.WAITING
        return progress_of(generation, tasks[task], worker.observed.get(group.id))

    def _errors(self, group: Group) -> Iterator[str]:
        for task in self._planner.tasks.get(group, ()):
            status = self.fragment(group, task)
            if status is not None and status.error is not None:
                yield status.error
            worker = self._worker(group, task)
            if worker is not None and worker.problem is not None:
                yield worker.problem
            if self.node(group, task) is None:
                yield from self._refusals(group, task)
        request = request_name_of(group)
        problem = self._driver.outcome.problems.get(request)
        if problem is not None:
            yield f"scheduler {request}: {problem}"

    def _operator_problems(self, generation: Generation) -> Iterator[str]:
        for task in self._planner.tasks.get(generation.group, ()):
            status = self.fragment(generation.group, task)
            if status is not None and generation.uid in status.troubles:
                yield status.troubles[generation.uid]

    def _refusals(self, group: Group, task: str) -> Iterator[str]:
        for refusal in self._driver.refusals(group.id):
            if refusal.task == task:
                on_node = "" if refusal.node is None else f" on {refusal.node}"
                yield f"{group.id}, {task}{on_node}: {refusal.reason}"

    def _worker(self, group: Group, task: str) -> WorkerReconciler | None:
        node = self.node(group, task)
        return None if node is None else self._workers.get(node)
