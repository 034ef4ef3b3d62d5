"""Branch and bound: find the placement of one job's tasks with the shortest critical path.

``scipy.optimize.milp`` is not suitable. Latencies between pairs of tasks make the problem
quadratic, so a linear program needs a variable for each pair of nodes of each stream (10,000 for
100 nodes), and must be solved four times in a row for the lexicographic cost. A time limit would
make the result depend on the load of the machine, but a scheduler must be a pure function.
Therefore the search is limited by a number of steps, and starts from a greedy placement, which is
available for jobs of any size.
"""

import math
from collections.abc import Iterator, Sequence

import numpy as np

from analytics_enabler.scheduling.builtin.job_model import NOWHERE, JobModel, Numbers
from analytics_enabler.scheduling.builtin.nodes_table import Floats, Indices

_MAX_TASKS = 50
"""The maximum number of tasks for the exhaustive search, which recurses once for each task."""

_DECIMALS = 6
"""The decimals of a cost: rounding errors must not decide between placements of equal cost."""

Cost = tuple[int, float, int, float]
"""The cost of a placement; costs are compared in lexicographic order.

The parts of a cost are: the number of tasks that are not placed, the critical path in ms, the
number of running tasks that move, and the sum over the streams of bytes per second times latency in
ms.
"""

ZERO_COST: Cost = (0, 0.0, 0, 0.0)
INFEASIBLE: Cost = (2**31, math.inf, 0, 0.0)


def search(model: JobModel, candidates: Sequence[Indices], steps: int) -> tuple[Cost, Numbers]:
    """Return (cost, node of each task) of the cheapest placement that was found for a job.

    ``candidates``: for each task, the nodes that it may have. The placement is optimal if ``steps``
    suffice and the job has at most ``_MAX_TASKS`` tasks. Otherwise, the placement may be a greedy
    placement or the current placement, improved task by task. One step compares all nodes for one
    task.
    """
    current = list(model.current)
    starts = [greedy(model, candidates), (cost_of(model, current), current)]
    cost, nodes = min(starts, key=lambda solution: solution[0])
    if cost == INFEASIBLE:
        nodes = [NOWHERE] * len(model.tasks)
    else:
        cost, nodes = improve(model, candidates, nodes, steps)
    if len(model.tasks) > _MAX_TASKS:
        return cost, nodes
    exhaustive = _BranchAndBound(model, candidates, (cost, nodes), steps)
    exhaustive.explore(0, ZERO_COST)
    return exhaustive.best


class _BranchAndBound:
    """The exhaustive search, which tries each candidate for each task, in topological order.

    A branch is cut if the cost so far is not below the cost of the best placement found.
    """

    def __init__(
        self,
        model: JobModel,
        candidates: Sequence[Indices],
        best: tuple[Cost, Numbers],
        steps: int,
    ) -> None:
        self.best = best
        self._model = model
        self._candidates = candidates
        self._steps = steps
        self._nodes = [NOWHERE] * len(model.tasks)
        self._ready = [0.0] * len(model.tasks)

    def explore(self, position: int, cost: Cost) -> None:
        """Try all placements of the tasks from a position on; ``cost``: of the tasks before.

        ``best`` contains the result.
        """
        model, nodes = self._model, self._nodes
        if position == len(nodes):
            if cost < self.best[0] and model.reads_data(nodes):
                self.best = cost, list(nodes)
            return
        if self._steps <= 0:
            return
        self._steps -= 1
        task = model.tasks[position]
        options = _options(model, self._candidates, nodes, self._ready, position, cost, self.best)
        for bound, node, ready in options:
            # Each part of the cost only grows, so the cost so far is a lower bound.
            if bound >= self.best[0] or self._steps <= 0:
                return
            nodes[position], self._ready[position] = node, ready
            model.table.allocate(task, node)
            self.explore(position + 1, bound)
            model.table.release(task, node)
            nodes[position] = NOWHERE
        left_out = (cost[0] + 1, *cost[1:])
        if task.pinned is not None and left_out < self.best[0]:
            self.explore(position + 1, left_out)


def _options(
    model: JobModel,
    candidates: Sequence[Indices],
    nodes: Numbers,
    ready: Sequence[float],
    position: int,
    cost: Cost,
    best: tuple[Cost, Numbers] | None,
) -> Iterator[tuple[Cost, int, float]]:
    """Yield the options for a task, cheapest first: (cost, node, latency in ms from the data).

    The cost includes this task and all earlier tasks (``cost``), whose ``nodes`` and latencies
    from the data (``ready``) are given. Options that are worse than ``best`` are omitted.
    """
    task, table = model.tasks[position], model.table
    options = candidates[position]
    options = options[table.fits(task, options, model.current[position])]
    data = model.data[position]
    at = np.zeros(len(options)) if data is None else data[options]
    traffic = np.full(len(options), cost[3])
    for source, rate in model.inputs[position]:
        if nodes[source] != NOWHERE:
            latencies = table.latencies_ms(nodes[source], options)
            at = np.maximum(at, ready[source] + latencies)
            traffic = traffic + rate * latencies
    # Latencies are those of the fastest paths, so no path through later tasks is shorter.
    path = _rounded(np.maximum(at + model.to_sink[options], cost[1]))
    if best is not None and best[0][0] <= cost[0]:
        kept = path <= best[0][1]
        options, at, traffic, path = options[kept], at[kept], traffic[kept], path[kept]
    traffic, moves = _rounded(traffic), _moves(model, position, options)
    # Among equal costs, less load and fewer failures come first; then the lower name.
    for number in np.lexsort((options, table.load(options), traffic, moves, path)):
        option = (
            cost[0],
            float(path[number]),
            cost[2] + int(moves[number]),
            float(traffic[number]),
        )
        yield option, int(options[number]), float(at[number])


def _moves(model: JobModel, position: int, options: Indices) -> Indices:
    current = model.current[position]
    return (options != current).astype(np.intp) if current != NOWHERE else np.zeros_like(options)


def _rounded(values: Floats) -> Floats:
    return np.round(values, _DECIMALS)


def cost_of(model: JobModel, nodes: Numbers) -> Cost:
    """Return the cost of a placement of a job.

    The cost is ``INFEASIBLE`` if a task that is not pinned has no node, or if the job reads no
    data.
    """
    tasks = zip(model.tasks, nodes, strict=True)
    if any(node == NOWHERE and task.pinned is None for task, node in tasks):
        return INFEASIBLE
    if not model.reads_data(nodes):
        return INFEASIBLE
    moved = sum(node not in (now, NOWHERE) and now != NOWHERE for node, now in _pairs(model, nodes))
    path, traffic = np.round([model.path_ms(nodes), model.traffic_ms(nodes)], _DECIMALS)
    return nodes.count(NOWHERE), float(path), moved, float(traffic)


def _pairs(model: JobModel, nodes: Numbers) -> Iterator[tuple[int, int]]:
    return zip(nodes, model.current, strict=True)


def greedy(model: JobModel, candidates: Sequence[Indices]) -> tuple[Cost, Numbers]:
    """Return (cost, nodes) of the placement in which each task has the best node at its turn."""
    nodes, ready = [NOWHERE] * len(model.tasks), [0.0] * len(model.tasks)
    cost = ZERO_COST
    for position, task in enumerate(model.tasks):
        option = next(_options(model, candidates, nodes, ready, position, cost, None), None)
        if option is not None:
            cost, nodes[position], ready[position] = option
            model.table.allocate(task, nodes[position])
        elif task.pinned is not None:
            cost = (cost[0] + 1, *cost[1:])
        else:
            break
    model.release(nodes)
    return cost_of(model, nodes), nodes


def improve(
    model: JobModel, candidates: Sequence[Indices], start: Numbers, steps: int
) -> tuple[Cost, Numbers]:
    """Return (cost, nodes) after moving one task at a time to a cheaper node.

    The moves end when the cost no longer falls, or after the given number of steps.
    """
    cost, nodes, before = cost_of(model, start), list(start), None
    model.allocate(nodes)
    while cost != before and steps > 0:
        before = cost
        for position, task in enumerate(model.tasks):
            if steps <= 0 or nodes[position] == NOWHERE or len(candidates[position]) <= 1:
                continue
            steps -= 1
            model.table.release(task, nodes[position])
            node = _cheapest(model, nodes, position, candidates[position])
            trial = [*nodes[:position], node, *nodes[position + 1 :]]
            if node != NOWHERE and (found := cost_of(model, trial)) < cost:
                cost, nodes = found, trial
            model.table.allocate(task, nodes[position])
    model.release(nodes)
    return cost, nodes


def _cheapest(model: JobModel, nodes: Numbers, position: int, candidates: Indices) -> int:
    """Return the candidate with capacity that gives a job the lowest cost, without its load."""
    options = candidates[
        model.table.fits(model.tasks[position], candidates, model.current[position])
    ]
    if len(options) == 0:
        return NOWHERE
    path = _rounded(model.paths_ms(position, nodes, options))
    traffic, table = np.zeros(len(options)), model.table
    for source, rate in model.inputs[position]:
        if nodes[source] != NOWHERE:
            traffic = traffic + rate * table.latencies_ms(nodes[source], options)
    for target, rate in model.outputs[position]:
        if nodes[target] != NOWHERE:
            traffic = traffic + rate * table.latencies_ms(options, nodes[target])
    moves = _moves(model, position, options)
    return int(options[np.lexsort((options, _rounded(traffic), moves, path))[0]])
