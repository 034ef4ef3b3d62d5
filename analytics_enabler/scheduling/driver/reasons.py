"""Why tasks move: what a new placement improves over the former one, in the present fog."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from analytics_enabler.scheduling.builtin.capacity import FreeCapacity
from analytics_enabler.scheduling.builtin.energy import watts_per_core
from analytics_enabler.scheduling.builtin.quality import checked_share, with_checks
from analytics_enabler.scheduling.model.jobs import Job, Placement, Task, critical_path_ms
from analytics_enabler.scheduling.model.snapshot import Fog
from analytics_enabler.scheduling.prices import cost_per_hour

_LOW_CHARGE = 0.3
"""The share of a battery's capacity below which its charge is part of a reason of ``energy``."""

_MIN_CHANGE = 0.02
"""The relative change of a figure that is part of a reason."""


def reasons_of_moves(
    jobs: Sequence[Job], fog: Fog, before: Placement, after: Placement
) -> Mapping[tuple[str, str], str]:
    """Return (job, task) -> why the task moves; only tasks whose former node is in the fog.

    ``jobs``: all jobs. A task is missing if no known figure improves.
    """
    alive = Placement(tuple(at for at in before.assignments if at.node in fog.by_name))
    return _Decision(jobs, fog, alive, after).reasons()


@dataclass(frozen=True, slots=True)
class _Decision:
    """The placements of all jobs before and after a decision about them, in the same fog."""

    jobs: Sequence[Job]
    fog: Fog
    before: Placement
    after: Placement

    def reasons(self) -> Mapping[tuple[str, str], str]:
        """Return (job, task) -> why the task moves."""
        found = {}
        for job in self.jobs:
            moved = {task.id: task for task in job.tasks if self._moves(job, task)}
            if not moved or not self._is_whole(job):
                continue
            gains = list(self._gains(job))
            for task in moved.values():
                if why := "; ".join([*self._lacks(job, task), *gains]):
                    found[job.id, task.id] = why
        return found

    def _moves(self, job: Job, task: Task) -> bool:
        old, new = self._node(job, task, self.before), self._node(job, task, self.after)
        return None not in (old, new) and old != new

    def _is_whole(self, job: Job) -> bool:
        """Return whether both placements have the same tasks of a job."""
        former, latter = (
            {at.task for at in each.of([job]).assignments} for each in (self.before, self.after)
        )
        return former == latter

    def _node(self, job: Job, task: Task, placement: Placement) -> str | None:
        found = placement.by_task.get((job.id, task.id), ())
        return found[0].node if found else None

    def _lacks(self, job: Job, task: Task) -> Iterator[str]:
        """Yield what the former node of a task lacks."""
        old = self._node(job, task, self.before) or ""
        # Only the scheduler ``energy`` spares batteries.
        battery = self.fog.by_name[old].battery if job.scheduler == "energy" else None
        if battery is not None and battery.charge_wh < _LOW_CHARGE * battery.capacity_wh:
            yield f"the battery of {old} is at {battery.charge_wh / battery.capacity_wh:.0%}"
        free = FreeCapacity(self.fog)
        free.allocate_jobs(self.jobs, self.after)
        if shortage := free.shortage(task, old):
            yield f"{old} lacks capacity: {shortage}"

    def _gains(self, job: Job) -> Iterator[str]:
        """Yield which figures of a job improve."""
        fog, before, after = self.fog, self.before, self.after
        watts = watts_per_core(fog)
        pairs = (
            (
                "the critical path falls from {} to {} ms",
                (critical_path_ms(job, each, fog) for each in (before, after)),
            ),
            (
                "the cost falls from {} to {} per hour",
                (cost_per_hour(job, each, fog) for each in (before, after)),
            ),
            (
                "the power falls from {} to {} W",
                (_power(job, each, watts) for each in (before, after)),
            ),
        )
        for text, values in pairs:
            old, new = values
            if new < old * (1 - _MIN_CHANGE):
                yield text.format(_rounded(old), _rounded(new))
        if job.scheduler == "quality":
            old, new = (self._checked(job, each) for each in (before, after))
            if new > old * (1 + _MIN_CHANGE):
                yield f"the share of checked points rises from {old:.0%} to {new:.0%}"

    def _checked(self, job: Job, placement: Placement) -> float:
        """Return the share of the points that can be checked, by weight."""
        group = [each for each in self.jobs if each.request_name == job.request_name]
        free = FreeCapacity(self.fog)
        free.allocate_jobs([each for each in self.jobs if each not in group], placement)
        fog = free.snapshot()
        return checked_share(job, with_checks(group, fog, placement.of(group)), fog)


def _power(job: Job, placement: Placement, watts: Mapping[str, float]) -> float:
    return sum(
        task.cores * watts[at.node]
        for task in job.tasks
        for at in placement.by_task.get((job.id, task.id), ())
    )


def _rounded(value: float) -> str:
    return f"{value:.3g}" if value < 1000 else f"{value:,.0f}"
