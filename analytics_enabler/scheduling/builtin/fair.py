"""``fair``: spreads the load evenly and ignores the network (the specification, 4.2.4)."""

from collections.abc import Collection, Mapping, Sequence

from analytics_enabler.scheduling.builtin.branch_and_bound import search
from analytics_enabler.scheduling.builtin.capacity import FreeCapacity, refusals
from analytics_enabler.scheduling.builtin.eligibility import (
    NodeByTask,
    by_priority,
    eligible_nodes,
    nearest_nodes,
    reads_no_data,
)
from analytics_enabler.scheduling.builtin.job_model import JobModel, no_amounts
from analytics_enabler.scheduling.builtin.nodes_table import NodesTable
from analytics_enabler.scheduling.interface import Decision
from analytics_enabler.scheduling.model.jobs import Assignment, Job, Placement, Setting, Task
from analytics_enabler.scheduling.model.snapshot import Fog

_MIN_GAIN = 0.1
"""The minimum gain of a move, as a difference of loads.

A task moves only if the load of its node is greater, by more than this value, than the load of the
other node would be after the move.
"""

_START_LOAD = _MIN_GAIN
"""The load of a start, by which the tasks of a lost node are spread over several nodes.

A greater value would be undone by moves.
"""

_MAX_OPTIONS = 200
_STEPS = 500
"""The maximum number of options for nodes, and of steps, to find a placement with more tasks."""


class Fair:
    """Places each task on the node with the least load; running tasks rarely move.

    A task that reads the data of another site goes to one of the nodes nearest to these data.
    """

    def prepare(self, settings: Mapping[str, Setting]) -> None:
        """Ignore the settings: ``fair`` has no settings."""

    def schedule(self, jobs: tuple[Job, ...], fog: Fog, current: Placement) -> Decision:
        """Return a decision that moves few running tasks and spreads the load evenly.

        Running tasks stay where possible, the other tasks are placed, and then tasks are moved from
        nodes with much load.
        """
        placement = as_placement(spread(jobs, fog, current))
        return Decision(placement, tuple(refusals(by_priority(jobs, current), fog, placement)))


def as_placement(nodes: Mapping[str, NodeByTask]) -> Placement:
    """Convert job id -> task -> node to a placement."""
    return Placement(
        tuple(
            Assignment(job=job, task=task, node=node)
            for job in sorted(nodes)
            for task, node in sorted(nodes[job].items())
        )
    )


def spread(jobs: Sequence[Job], fog: Fog, current: Placement) -> dict[str, NodeByTask]:
    """Return job id -> task -> node for an even load; a job that does not fit has no tasks."""
    free = FreeCapacity(fog)
    prioritized = by_priority(jobs, current)
    nodes = {job.id: retain_running(job, fog, current, free) for job in prioritized}
    starting: set[str] = set()
    for job in prioritized:
        more = starting.copy()
        if _place_missing(job, fog, current, nodes[job.id], free, more):
            starting = more
        else:
            _release(job, nodes[job.id], free)
        if len(nodes[job.id]) < len(job.tasks):
            nodes[job.id] = _place_more(job, fog, nodes[job.id], free)
    if not starting:  # else moves would delay the starts
        _rebalance([job for job in prioritized if not job.stays], fog, nodes, free)
    return nodes


def retain_running(job: Job, fog: Fog, current: Placement, free: FreeCapacity) -> NodeByTask:
    """Return task -> node for those running tasks of a job that can stay on their nodes.

    The demand of these tasks is subtracted from ``free``.
    """
    retained: NodeByTask = {}
    for task in job.in_order:
        match current.by_task.get((job.id, task.id), ()):
            case (at,) if (
                at.node in eligible_nodes(task, fog)
                and free.shortage(task, at.node, is_running=True) is None
            ):
                free.allocate(task, at.node)
                retained[task.id] = at.node
    return retained


def _place_missing(
    job: Job,
    fog: Fog,
    current: Placement,
    nodes: NodeByTask,
    free: FreeCapacity,
    starting: set[str],
) -> bool:
    """Place the tasks of a job that are not in ``nodes``; return whether the job can run.

    ``starting``: the nodes on which tasks start that ran elsewhere; more of these nodes are added.
    """
    # Pinned tasks have the fewest nodes to choose from, so they go first; then the largest.
    missing = [task for task in job.in_order if task.id not in nodes]
    for task in sorted(missing, key=lambda t: (t.pinned is None, -t.cores, -t.memory_mb, t.id)):
        fitting = [node for node in eligible_nodes(task, fog) if free.shortage(task, node) is None]
        if fitting:
            nearest = nearest_nodes(task, fitting, fog)
            has_run = (job.id, task.id) in current.by_task
            nodes[task.id] = _least_loaded(nearest, task, free, starting if has_run else ())
            free.allocate(task, nodes[task.id])
            if has_run:
                starting.add(nodes[task.id])
        elif task.pinned is None:
            return False
    return not reads_no_data(job, nodes)


def _place_more(job: Job, fog: Fog, nodes: NodeByTask, free: FreeCapacity) -> NodeByTask:
    """Return a placement with more tasks of a small job than ``nodes`` has, if there is one."""
    if sum(len(eligible_nodes(task, fog)) for task in job.tasks) > _MAX_OPTIONS:
        return nodes
    retained = dict(nodes)
    _release(job, nodes, free)
    table = NodesTable(free.snapshot(), [job])
    model = JobModel(job, table, no_amounts(table), retained)
    found = model.names(search(model, model.candidates, _STEPS)[1])
    best = found if len(found) > len(retained) else retained
    for task in job.tasks:
        if task.id in best:
            free.allocate(task, best[task.id])
    return best


def _release(job: Job, nodes: NodeByTask, free: FreeCapacity) -> None:
    for task in job.tasks:
        if task.id in nodes:
            free.release(task, nodes.pop(task.id))


def _rebalance(
    jobs: Sequence[Job], fog: Fog, nodes: dict[str, NodeByTask], free: FreeCapacity
) -> None:
    tasks = [(job.id, task) for job in jobs for task in job.in_order if task.id in nodes[job.id]]
    # Each move lowers the load of the fuller of two nodes, so this ends; the bound limits its time.
    for _ in range(len(tasks)):
        tasks.sort(key=lambda item: (-free.load(nodes[item[0]][item[1].id]), item[0], item[1].id))
        if not any(_move(task, fog, nodes[job], free) for job, task in tasks):
            return


def _move(task: Task, fog: Fog, nodes: NodeByTask, free: FreeCapacity) -> bool:
    here = nodes[task.id]
    if fog.by_name[here].suspected:
        return False
    others = [n for n in eligible_nodes(task, fog) if n != here and free.shortage(task, n) is None]
    others = [n for n in nearest_nodes(task, [here, *others], fog) if n != here]
    if not others:
        return False
    there = _least_loaded(others, task, free)
    if free.cost(there, task) >= free.load(here) - _MIN_GAIN:
        return False
    free.release(task, here)
    free.allocate(task, there)
    nodes[task.id] = there
    return True


def _least_loaded(
    nodes: Sequence[str], task: Task, free: FreeCapacity, starting: Collection[str] = ()
) -> str:
    def cost(node: str) -> float:
        return free.cost(node, task) + (_START_LOAD if node in starting else 0)

    return min(nodes, key=lambda node: (cost(node), node))
