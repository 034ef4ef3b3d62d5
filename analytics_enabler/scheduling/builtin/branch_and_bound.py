"""Branch and bound: find the placement of one job's tasks with the shortest critical path.

``scipy.optimize.milp`` is not suitable. Latencies between pairs of tasks make the problem
quadratic, so a linear program needs a variable for each pair of nodes of each stream (10,000 for
100 nodes), and must be solved four times in a row for the lexicographic cost. A time limit would
make the result depend on the load of the machine, but a scheduler must be a pure function.
Therefore the search is limited by a number of steps, and starts from a greedy placement, which is
available for jobs of any size.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from analytics_enabler.scheduling.builtin.capacity import FreeCapacity
from analytics_enabler.scheduling.builtin.eligibility import NodeByTask, reads_no_data
from analytics_enabler.scheduling.model.jobs import Job, Task, data_latency_ms
from analytics_enabler.scheduling.model.snapshot import Fog

_MAX_TASKS = 50
"""The maximum number of tasks for the exhaustive search, which recurses once for each task."""

_UNKNOWN_MS = 1e9
"""The latency (ms) assumed for a path without measurements.

It is greater than all real latencies, so that such a path is chosen last.
"""

Cost = tuple[int, float, int, float]
"""The cost of a placement; costs are compared in lexicographic order.

The parts of a cost are: the number of tasks that are not placed, the critical path in ms, the
number of running tasks that move, and the sum over the streams of bytes per second times latency in
ms.
"""

ZERO_COST: Cost = (0, 0.0, 0, 0.0)
INFEASIBLE: Cost = (2**31, math.inf, 0, 0.0)


@dataclass(frozen=True)
class SearchProblem:
    """The problem of placing one job.

    ``eligible``: task -> the names of its eligible nodes. ``current``: running task -> its node.
    """

    job: Job
    fog: Fog
    eligible: Mapping[str, Sequence[str]]
    current: NodeByTask
    _latencies: dict[tuple[str, str], float] = field(default_factory=dict)
    _data_latencies: dict[tuple[str, str], float] = field(default_factory=dict)

    def latency_ms(self, source: str, target: str) -> float:
        """Return the latency in ms from a node or site to another, at most ``_UNKNOWN_MS``."""
        pair = source, target
        # Needed at every step, and 20 times faster than the look-up in the snapshot.
        if pair not in self._latencies:
            self._latencies[pair] = min(self.fog.latency_ms(source, target), _UNKNOWN_MS)
        return self._latencies[pair]

    def data_latency_ms(self, task: Task, node: str) -> float:
        """Return the latency in ms from the data of a task to a node, at most ``_UNKNOWN_MS``."""
        pair = task.id, node
        if pair not in self._data_latencies:
            latency = data_latency_ms(task, node, self.fog)
            self._data_latencies[pair] = min(latency, _UNKNOWN_MS)
        return self._data_latencies[pair]


@dataclass
class _PartialPlacement:
    """The tasks that the search has placed so far, and the free capacity that remains.

    ``nodes``: task -> node. ``ready``: task -> the latency in ms of the slowest path from the data
    to the task.
    """

    free: FreeCapacity
    nodes: NodeByTask = field(default_factory=dict)
    ready: dict[str, float] = field(default_factory=dict)

    def assign(self, task: Task, node: str, ready: float) -> None:
        self.free.allocate(task, node)
        self.nodes[task.id] = node
        self.ready[task.id] = ready

    def unassign(self, task: Task) -> None:
        self.free.release(task, self.nodes.pop(task.id))
        del self.ready[task.id]


def search(problem: SearchProblem, free: FreeCapacity, steps: int) -> tuple[Cost, NodeByTask]:
    """Return (cost, task -> node) of the cheapest placement that was found for a job.

    The placement is optimal if ``steps`` suffice and the job has at most ``_MAX_TASKS`` tasks.
    Otherwise, the placement may be a greedy placement or the current placement, improved task by
    task. One step tries one node for one task.
    """
    staying = cost_of(problem, problem.current, free), problem.current
    start = min(_greedy(problem, free), staying, key=lambda solution: solution[0])
    best = _improve(problem, free, start, steps)
    if len(problem.job.tasks) <= _MAX_TASKS:
        branch_and_bound = _BranchAndBound(problem, _PartialPlacement(free), best, steps)
        branch_and_bound.explore(0, ZERO_COST)
        best = branch_and_bound.best
    return best


class _BranchAndBound:
    """The exhaustive search, which tries each eligible node for each task, in topological order.

    A branch is cut if the cost so far is not below the cost of the best placement found.
    """

    def __init__(
        self,
        problem: SearchProblem,
        partial: _PartialPlacement,
        best: tuple[Cost, NodeByTask],
        steps: int,
    ) -> None:
        self.best = best
        self._problem = problem
        self._partial = partial
        self._steps = steps

    def explore(self, number: int, cost: Cost) -> None:
        """Try all placements of the tasks from index ``number`` to the last task.

        ``cost``: the cost of the earlier tasks, which are placed. ``best`` contains the result.
        """
        tasks = self._problem.job.in_order
        if number == len(tasks):
            if cost < self.best[0] and not reads_no_data(self._problem.job, self._partial.nodes):
                self.best = cost, dict(self._partial.nodes)
            return
        task = tasks[number]
        options = _options(self._problem, self._partial, task, cost)
        self._steps -= len(self._problem.eligible[task.id])
        for bound, node, ready in options:
            # Each part of the cost only grows, so the cost so far is a lower bound.
            if bound >= self.best[0] or self._steps <= 0:
                return
            if node is None:
                self.explore(number + 1, bound)
                continue
            self._partial.assign(task, node, ready)
            self.explore(number + 1, bound)
            self._partial.unassign(task)


def _options(
    problem: SearchProblem, partial: _PartialPlacement, task: Task, cost: Cost
) -> list[tuple[Cost, str | None, float]]:
    """Return the options for a task, cheapest first: (cost, node, latency in ms from the data).

    The cost includes this task and all earlier tasks (``cost``). For a pinned task, the node may be
    None, which means that the task is not placed.
    """
    options: list[tuple[Cost, float, str | None, float]] = []
    for node in problem.eligible[task.id]:
        if partial.free.shortage(task, node) is None:
            bound, ready = _add_task(problem, partial, task, node, cost)
            options.append((bound, partial.free.cost(node, task), node, ready))
    # Among equal costs, less load and fewer failures come first; the sort is stable, so then the
    # lower name.
    options.sort(key=lambda option: option[:2])
    if task.pinned is not None:
        options.append(((cost[0] + 1, *cost[1:]), 0.0, None, 0.0))
    return [(bound, node, ready) for bound, _, node, ready in options]


def _add_task(
    problem: SearchProblem, partial: _PartialPlacement, task: Task, node: str, cost: Cost
) -> tuple[Cost, float]:
    """Return (cost with the task on the node, latency in ms from the data to the node).

    ``cost``: the cost of the earlier tasks.
    """
    left_out, path, moved, traffic = cost
    ready = problem.data_latency_ms(task, node)
    for source, rate in problem.job.inputs[task.id].items():
        if source in partial.nodes:
            latency = problem.latency_ms(partial.nodes[source], node)
            ready = max(ready, partial.ready[source] + latency)
            traffic += rate * latency
    # Latencies are those of the fastest paths, so no path through later tasks is shorter.
    path = max(path, ready + problem.latency_ms(node, problem.job.sink))
    moved += problem.current.get(task.id, node) != node
    return (left_out, path, moved, traffic), ready


def cost_of(problem: SearchProblem, nodes: NodeByTask, free: FreeCapacity) -> Cost:
    """Return the cost of a placement (task -> node) of a job.

    The cost is ``INFEASIBLE`` if a task that is not pinned has no node, or if the job reads no
    data.
    """
    if reads_no_data(problem.job, nodes):
        return INFEASIBLE
    partial = _PartialPlacement(free)
    cost = ZERO_COST
    for task in problem.job.in_order:
        if (node := nodes.get(task.id)) is None:
            if task.pinned is None:
                return INFEASIBLE
            cost = (cost[0] + 1, *cost[1:])
            continue
        cost, partial.ready[task.id] = _add_task(problem, partial, task, node, cost)
        partial.nodes[task.id] = node
    return cost


def _greedy(problem: SearchProblem, free: FreeCapacity) -> tuple[Cost, NodeByTask]:
    partial = _PartialPlacement(free)
    cost = ZERO_COST
    for task in problem.job.in_order:
        options = _options(problem, partial, task, cost)
        if not options:
            cost = INFEASIBLE
            break
        cost, node, ready = options[0]
        if node is not None:
            partial.assign(task, node, ready)
    nodes = dict(partial.nodes)
    for task in problem.job.tasks:
        if task.id in nodes:
            partial.unassign(task)
    return (INFEASIBLE, {}) if reads_no_data(problem.job, nodes) else (cost, nodes)


def _improve(
    problem: SearchProblem, free: FreeCapacity, start: tuple[Cost, NodeByTask], steps: int
) -> tuple[Cost, NodeByTask]:
    """Return (cost, task -> node) after moving one task at a time to a cheaper node.

    The moves end when the cost no longer falls, or after the given number of steps.
    """
    cost, nodes = start[0], dict(start[1])
    if cost == INFEASIBLE:
        return INFEASIBLE, {}
    tasks = [task for task in problem.job.in_order if task.id in nodes]
    for task in tasks:
        free.allocate(task, nodes[task.id])
    before = None
    while cost != before and steps > 0:
        before = cost
        for task in tasks:
            if steps <= 0:
                break
            free.release(task, nodes[task.id])
            fitting = [n for n in problem.eligible[task.id] if free.shortage(task, n) is None]
            # The cost of a whole placement takes one step for each of its tasks.
            steps -= len(fitting) * len(tasks)
            trials = [(cost_of(problem, {**nodes, task.id: n}, free), n) for n in fitting]
            cheapest = min(trials, default=(cost, ""))
            if cheapest[0] < cost:
                cost, nodes[task.id] = cheapest
            free.allocate(task, nodes[task.id])
    for task in tasks:
        free.release(task, nodes[task.id])
    return cost, nodes
