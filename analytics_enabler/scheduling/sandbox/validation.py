"""The validation of a decision before it is applied."""

from collections.abc import Iterator, Sequence

import msgspec

from analytics_enabler.scheduling.builtin.capacity import FreeCapacity
from analytics_enabler.scheduling.builtin.eligibility import ineligibility
from analytics_enabler.scheduling.interface import Decision
from analytics_enabler.scheduling.model.jobs import Assignment, Job, Task
from analytics_enabler.scheduling.model.snapshot import Fog

_TOLERANCE = 1e-6


def violations(decision: Decision, jobs: Sequence[Job], fog: Fog) -> list[str]:
    """Return one message for each violation of the rules of ``Decision``."""
    return [*_of_assignments(decision, jobs, fog), *_of_jobs(decision, jobs)]


def _of_assignments(decision: Decision, jobs: Sequence[Job], fog: Fog) -> Iterator[str]:
    tasks = {(job.id, task.id): task for job in jobs for task in job.tasks}
    free = FreeCapacity(fog)
    for (job, name), assignments in decision.placement.by_task.items():
        task = tasks.get((job, name))
        if task is None:
            yield f"{job}/{name} is not a task"
            continue
        for assignment in assignments:
            reason = _invalid_assignment(assignment, task, fog)
            if reason is None:
                free.allocate(task, assignment.node, assignment.share, assignment.checked)
            else:
                yield f"{job}/{name} on {assignment.node}: {reason}"
        if len({assignment.node for assignment in assignments}) < len(assignments):
            yield f"{job}/{name} is twice on the same node"
        if abs(sum(assignment.share for assignment in assignments) - 1) > _TOLERANCE:
            yield f"{job}/{name}: the nodes' shares do not add up to 1"
    for node in free.overcommitted():
        yield f"{node} has not enough cores or memory free for the tasks placed on it"


def _invalid_assignment(assignment: Assignment, task: Task, fog: Fog) -> str | None:
    node = fog.by_name.get(assignment.node)
    if node is None:
        return "there is no such node"
    if not 0 < assignment.share <= 1:
        return f"the node's share must be above 0 and at most 1 (got {assignment.share})"
    if not 0 <= assignment.checked <= 1:
        return f"the share of checked points must be from 0 to 1 (got {assignment.checked})"
    # A scheduler may leave a task on a hot spot.
    reason = ineligibility(task, node, fog)
    return reason and ineligibility(msgspec.structs.replace(task, avoided=()), node, fog)


def _of_jobs(decision: Decision, jobs: Sequence[Job]) -> Iterator[str]:
    refused = {(refusal.job, refusal.task) for refusal in decision.refusals}
    tasks = {(job.id, task.id) for job in jobs for task in job.tasks}
    for unknown in sorted(refused - tasks):
        yield f"{'/'.join(unknown)} is refused, but is not a task"
    for job in jobs:
        missing = [t for t in job.tasks if (job.id, t.id) not in decision.placement.by_task]
        if len(missing) == len(job.tasks):
            if missing and not any((job.id, task.id) in refused for task in missing):
                yield f"{job.id} is not placed, and has no refusal"
            continue
        for task in missing:
            if task.pinned is None:
                yield f"{job.id}/{task.id} is not placed, but other tasks of its job are"
            elif (job.id, task.id) not in refused:
                yield f"{job.id}/{task.id} is not placed, and has no refusal"
