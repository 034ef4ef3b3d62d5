"""One job as arrays: its candidate nodes, the latency of its paths, and additive amounts."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from analytics_enabler.scheduling.builtin.eligibility import NodeByTask
from analytics_enabler.scheduling.builtin.nodes_table import Floats, Indices, NodesTable
from analytics_enabler.scheduling.model.jobs import Job, Placement, Task

NOWHERE = -1
"""The number of the node of a task that is not placed."""

Numbers = list[int]
"""The number of the node of each task, in the order of ``JobModel.tasks``."""


@dataclass(frozen=True)
class Amounts:
    """An amount that a scheduler limits or minimizes, such as power or money; all are at least 0.

    ``of_task``: returns the amount of a task for each node. ``per_byte``: for each node, the amount
    per byte/s that leaves its site; None: 0.
    """

    of_task: Callable[[Task], Floats]
    per_byte: Floats | None = None


def no_amounts(table: NodesTable) -> Amounts:
    """Return the amounts of a scheduler that neither limits nor minimizes an amount."""
    zeros = np.zeros(len(table.names))
    return Amounts(lambda _: zeros)


def retain_running(job: Job, current: Placement, table: NodesTable) -> NodeByTask:
    """Return task -> node for the running tasks that fit on their nodes, and allocate them."""
    nodes: NodeByTask = {}
    for task in job.in_order:
        match current.by_task.get((job.id, task.id), ()):
            case (at,) if at.node in table.index:
                node = table.index[at.node]
                if node in table.nodes_of(task) and table.fits(task, np.array([node]), node)[0]:
                    table.allocate(task, node)
                    nodes[task.id] = at.node
    return nodes


def release(job: Job, nodes: NodeByTask, table: NodesTable) -> None:
    """Return the demand of the placed tasks of a job to the free capacity."""
    for task in job.tasks:
        if task.id in nodes:
            table.release(task, table.index[nodes[task.id]])


def running_nodes(job: Job, current: Placement, table: NodesTable) -> NodeByTask:
    """Return task -> node for the running tasks that fit on their nodes, without allocations."""
    nodes = retain_running(job, current, table)
    release(job, nodes, table)
    return nodes


def must_stay(job: Job, current: Placement, running: NodeByTask) -> bool:
    """Return whether running tasks move only if they must: the job moved recently, or lost a node.

    After a loss, only the lost tasks are placed, and the others may move at the next decision.
    ``running``: the result of ``retain_running``.
    """
    placed = {task.id for task in job.tasks if (job.id, task.id) in current.by_task}
    return job.stays or bool(running and placed - running.keys())


class JobModel:
    """A job in a fog whose free capacity does not include the tasks of this job.

    ``candidates``: for each task, the nodes that may run it and have capacity for it alone.
    ``current``: for each task, the node that runs it.
    """

    def __init__(
        self, job: Job, table: NodesTable, amounts: Amounts, current: Mapping[str, str]
    ) -> None:
        self.job = job
        self.table = table
        self.tasks = job.in_order
        number = {task.id: position for position, task in enumerate(self.tasks)}
        self.current = [table.index.get(current.get(task.id, ""), NOWHERE) for task in self.tasks]
        self.inputs = [
            [(number[source], rate) for source, rate in job.inputs[task.id].items()]
            for task in self.tasks
        ]
        self.outputs: list[list[tuple[int, float]]] = [[] for _ in self.tasks]
        for target, inputs in enumerate(self.inputs):
            for source, rate in inputs:
                self.outputs[source].append((target, rate))
        self.to_sink = table.to_site(job.sink)
        self.data = [
            None if task.pinned is None else table.from_site(task.pinned) for task in self.tasks
        ]
        self.amounts = [amounts.of_task(task) for task in self.tasks]
        self.per_byte = amounts.per_byte
        self.candidates = [self._candidates(position) for position in range(len(self.tasks))]

    def _candidates(self, position: int) -> Indices:
        task, nodes = self.tasks[position], self.table.nodes_of(self.tasks[position])
        return nodes[self.table.fits(task, nodes, self.current[position])]

    def fixed_candidates(self, nodes: Numbers) -> list[Indices]:
        """Return the candidates of tasks; the tasks in ``nodes`` do not move."""
        return [
            candidates if node == NOWHERE else candidates[candidates == node]
            for candidates, node in zip(self.candidates, nodes, strict=True)
        ]

    def names(self, nodes: Numbers) -> NodeByTask:
        """Return task -> the name of its node, for the placed tasks."""
        placed = zip(self.tasks, nodes, strict=True)
        return {task.id: self.table.names[node] for task, node in placed if node != NOWHERE}

    @property
    def least_path_ms(self) -> float:
        """A lower bound of the critical path (ms): the direct path from the data to the sink."""
        paths = [
            float((data[nodes] + self.to_sink[nodes]).min())
            for data, nodes in zip(self.data, self.candidates, strict=True)
            if data is not None and len(nodes)
        ]
        return max(paths, default=0.0)

    @property
    def least_amount(self) -> float:
        """A lower bound of the amount of all placements with all tasks that can be placed."""
        return sum(
            float(amounts[nodes].min())
            for amounts, nodes in zip(self.amounts, self.candidates, strict=True)
            if len(nodes)
        )

    def ready(self, nodes: Numbers) -> list[float]:
        """Return for each placed task the latency (ms) of the slowest path from data to it."""
        table, ready = self.table, [0.0] * len(nodes)
        for position, node in enumerate(nodes):
            if node == NOWHERE:
                continue
            data = self.data[position]
            at = 0.0 if data is None else float(data[node])
            for source, _ in self.inputs[position]:
                if nodes[source] != NOWHERE:
                    at = max(at, ready[source] + table.latency_ms(nodes[source], node))
            ready[position] = at
        return ready

    def path_ms(self, nodes: Numbers) -> float:
        """Return the critical path (ms) of a placement."""
        ready = self.ready(nodes)
        ends = (
            ready[position] + float(self.to_sink[node])
            for position, node in enumerate(nodes)
            if node != NOWHERE
        )
        return max(ends, default=0.0)

    def paths_ms(self, position: int, nodes: Numbers, options: Indices) -> Floats:
        """Return the critical path (ms) if a task runs on each of the nodes ``options``."""
        table = self.table
        without = [*nodes[:position], NOWHERE, *nodes[position + 1 :]]
        ready, data = self.ready(without), self.data[position]
        before = np.zeros(len(options)) if data is None else data[options]
        for source, _ in self.inputs[position]:
            if nodes[source] != NOWHERE:
                latencies = table.latencies_ms(nodes[source], options)
                before = np.maximum(before, ready[source] + latencies)
        after = self.to_sink[options]
        tails = self._tails(without) if self.outputs[position] else []
        for target, _ in self.outputs[position]:
            if nodes[target] != NOWHERE:
                through = table.latencies_ms(options, nodes[target]) + tails[target]
                after = np.maximum(after, through)
        return np.maximum(before + after, self.path_ms(without))

    def _tails(self, nodes: Numbers) -> list[float]:
        """Return for each placed task the latency (ms) of the slowest path from it to the sink."""
        tails = [0.0] * len(nodes)
        for position in reversed(range(len(nodes))):
            node = nodes[position]
            if node == NOWHERE:
                continue
            tail = float(self.to_sink[node])
            for target, _ in self.outputs[position]:
                if nodes[target] != NOWHERE:
                    latency = self.table.latency_ms(node, nodes[target])
                    tail = max(tail, latency + tails[target])
            tails[position] = tail
        return tails

    def amount(self, nodes: Numbers) -> float:
        """Return the amount of a placement."""
        total = sum(
            float(self.amounts[position][node])
            for position, node in enumerate(nodes)
            if node != NOWHERE
        )
        for position, node in enumerate(nodes):
            for source, rate in self.inputs[position] if node != NOWHERE else ():
                if nodes[source] != NOWHERE:
                    total += self.traffic(nodes[source], node, rate)
        return total

    def traffic(self, source: int, target: int, rate: float) -> float:
        """Return the amount of a stream of ``rate`` bytes/s between two nodes."""
        if self.per_byte is None or self.table.sites[source] == self.table.sites[target]:
            return 0.0
        return rate * float(self.per_byte[source])

    def amounts_of(self, position: int, nodes: Numbers, options: Indices) -> Floats:
        """Return the amount if a task runs on each of the nodes ``options``."""
        without = [*nodes[:position], NOWHERE, *nodes[position + 1 :]]
        total = self.amount(without) + self.amounts[position][options]
        if self.per_byte is None:
            return total
        sites = self.table.sites[options]
        for source, rate in self.inputs[position]:
            if nodes[source] != NOWHERE:
                at = nodes[source]
                total = total + (sites != self.table.sites[at]) * rate * self.per_byte[at]
        for target, rate in self.outputs[position]:
            if nodes[target] != NOWHERE:
                leaves = sites != self.table.sites[nodes[target]]
                total = total + leaves * rate * self.per_byte[options]
        return total

    def traffic_ms(self, nodes: Numbers) -> float:
        """Return the sum over the streams of bytes per second times latency (ms)."""
        return sum(
            rate * self.table.latency_ms(nodes[source], node)
            for node, inputs in zip(nodes, self.inputs, strict=True)
            for source, rate in inputs
            if node != NOWHERE and nodes[source] != NOWHERE
        )

    def allocate(self, nodes: Numbers) -> None:
        """Subtract the demand of the placed tasks from the free capacity."""
        for task, node in zip(self.tasks, nodes, strict=True):
            if node != NOWHERE:
                self.table.allocate(task, node)

    def release(self, nodes: Numbers) -> None:
        """Return the demand of the placed tasks to the free capacity."""
        for task, node in zip(self.tasks, nodes, strict=True):
            if node != NOWHERE:
                self.table.release(task, node)

    def reads_data(self, nodes: Numbers) -> bool:
        """Return whether a placement reads data, or the job has no pinned task."""
        pinned = [
            node for task, node in zip(self.tasks, nodes, strict=True) if task.pinned is not None
        ]
        return not pinned or any(node != NOWHERE for node in pinned)
