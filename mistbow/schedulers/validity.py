"""What is wrong with a decision: whatever a scheduler returns is checked before it counts."""

from collections.abc import Iterator, Sequence

from mistbow.fog.jobs import Assignment, Job, Task
from mistbow.fog.snapshot import Fog
from mistbow.schedulers.interface import Decision
from mistbow.schedulers.room import Room, unfit

_TOLERANCE = 1e-6


def faults(decision: Decision, jobs: Sequence[Job], fog: Fog) -> list[str]:
    """Return all that makes a decision nonsense, in words; nothing if it can be carried out."""
    return [*_of_assignments(decision, jobs, fog), *_of_jobs(decision, jobs)]


def _of_assignments(decision: Decision, jobs: Sequence[Job], fog: Fog) -> Iterator[str]:
    tasks = {(job.id, task.id): task for job in jobs for task in job.tasks}
    room = Room(fog)
    for (job, name), assignments in decision.placement.by_task.items():
        task = tasks.get((job, name))
        if task is None:
            yield f"{job}/{name} is no task"
            continue
        for at in assignments:
            reason = _misplaced(at, task, fog)
            if reason is None:
                room.take(task, at.node, at.share)
            else:
                yield f"{job}/{name} on {at.node}: {reason}"
        if len({at.node for at in assignments}) < len(assignments):
            yield f"{job}/{name} is twice on the same node"
        if abs(sum(at.share for at in assignments) - 1) > _TOLERANCE:
            yield f"{job}/{name}: the nodes' shares do not add up to 1"
    for node in room.overfull():
        yield f"{node} has not the cores or memory for what is placed on it"


def _misplaced(at: Assignment, task: Task, fog: Fog) -> str | None:
    node = fog.by_name.get(at.node)
    if node is None:
        return "there is no such node"
    if not 0 < at.share <= 1:
        return f"a share of {at.share}"
    return unfit(task, node)


def _of_jobs(decision: Decision, jobs: Sequence[Job]) -> Iterator[str]:
    refused = {(refusal.job, refusal.task) for refusal in decision.refusals}
    known = {(job.id, task.id) for job in jobs for task in job.tasks}
    for unknown in sorted(refused - known):
        yield f"{'/'.join(unknown)} is refused, and is no task"
    for job in jobs:
        missing = [t for t in job.tasks if (job.id, t.id) not in decision.placement.by_task]
        if len(missing) == len(job.tasks):
            if missing and not any((job.id, task.id) in refused for task in missing):
                yield f"{job.id} is not placed, and no refusal says why"
            continue
        for task in missing:
            if task.pinned is None:
                yield f"{job.id}/{task.id} is not placed, but others of its job are"
            elif (job.id, task.id) not in refused:
                yield f"{job.id}/{task.id} is not placed, and no refusal says why"
