"""The free capacity of nodes, and refusals for tasks that exceed it."""

from collections.abc import Iterable, Iterator

import msgspec

from analytics_enabler.scheduling.builtin.eligibility import eligible_nodes, is_only_confined
from analytics_enabler.scheduling.model.jobs import Job, Placement, Refusal, Task
from analytics_enabler.scheduling.model.snapshot import Fog

# Capacity is added and subtracted in floating point.
_TOLERANCE = 1e-6

UNRELIABILITY_COST = 0.2
"""The load that is added to a node of reliability 0 when nodes are compared."""

_SUSPECTED = "the node may have failed: it does not answer at present"


class FreeCapacity:
    """The free cores and megabytes of each node of a fog, while tasks are being placed."""

    def __init__(self, fog: Fog) -> None:
        self._fog = fog
        self._cores = {node.name: node.cores_free for node in fog.nodes}
        self._memory = {node.name: node.memory_free_mb for node in fog.nodes}

    def allocate(self, task: Task, node: str, share: float = 1.0, checked: float = 0.0) -> None:
        """Subtract ``share`` of a task's demand from a node, even beyond the node's capacity.

        ``checked``: the share of the task's points, on this node, whose quality is checked.
        """
        self._cores[node] -= share * (task.cores + checked * task.check_cores)
        self._memory[node] -= share * task.memory_mb

    def cores(self, node: str) -> float:
        """Return the free cores of a node."""
        return self._cores[node]

    def allocate_checks(self, task: Task, node: str, checked: float) -> None:
        """Subtract the cores that the checks of a share of a task's points need."""
        self._cores[node] -= checked * task.check_cores

    def release(self, task: Task, node: str) -> None:
        """Return the demand of a task to the free capacity of a node."""
        self.allocate(task, node, -1.0)

    def allocate_jobs(self, jobs: Iterable[Job], placement: Placement) -> None:
        """Subtract the demand of the placed tasks of ``jobs`` from the nodes of the tasks."""
        for job in jobs:
            for task in job.tasks:
                for assignment in placement.by_task.get((job.id, task.id), ()):
                    self.allocate(task, assignment.node, assignment.share, assignment.checked)

    def shortage(self, task: Task, node: str, *, is_running: bool = False) -> str | None:
        """Return why a node lacks capacity for a task; None: the capacity suffices.

        ``is_running``: whether the task runs on the node; only such tasks fit a suspected node.
        """
        if self._fog.by_name[node].suspected and not is_running:
            return _SUSPECTED
        cores, memory = self._cores[node], self._memory[node]
        if task.cores > cores + _TOLERANCE:
            unit = "core" if task.cores == 1 else "cores"
            return f"{task.cores:g} {unit} needed, {max(cores, 0):.3g} free"
        if task.memory_mb > memory + _TOLERANCE:
            return f"{task.memory_mb:g} MB of memory needed, {max(memory, 0):.0f} free"
        return None

    def overcommitted(self) -> Iterator[str]:
        """Yield the names of the nodes whose allocations exceed their capacity."""
        for node in self._cores:
            if min(self._cores[node], self._memory[node]) < -_TOLERANCE:
                yield node

    def load(self, node: str, task: Task | None = None) -> float:
        """Return the load of a node: the greater of its used shares of cores and of memory.

        ``task``: a task whose demand is added to the load; None: no demand is added.
        """
        cores, memory = self._cores[node], self._memory[node]
        if task is not None:
            cores, memory = cores - task.cores, memory - task.memory_mb
        total = self._fog.by_name[node]
        return 1.0 - min(cores / total.cores, memory / total.memory_mb)

    def cost(self, node: str, task: Task) -> float:
        """Return the load of a node with a task, plus a cost for the node's recent failures."""
        unreliability = 1.0 - self._fog.by_name[node].reliability
        return self.load(node, task) + UNRELIABILITY_COST * unreliability

    def snapshot(self) -> Fog:
        """Return the fog with the remaining free capacity of each node."""
        nodes = [
            msgspec.structs.replace(
                node,
                cores_free=max(self._cores[node.name], 0.0),
                memory_free_mb=max(self._memory[node.name], 0.0),
            )
            for node in self._fog.nodes
        ]
        return self._fog.with_nodes(nodes)


def refusals(jobs: Iterable[Job], fog: Fog, placement: Placement) -> Iterator[Refusal]:
    """Yield a refusal for each task and each eligible node that lacks capacity for the task.

    Each task that is not placed has at least one refusal. If no eligible node lacks capacity for
    such a task, the task has one refusal without a node.
    """
    jobs = list(jobs)
    free = FreeCapacity(fog)
    free.allocate_jobs(jobs, placement)
    for job in jobs:
        for task in job.in_order:
            used = {at.node for at in placement.by_task.get((job.id, task.id), ())}
            nodes = eligible_nodes(task, fog)
            shortages = {node: free.shortage(task, node) for node in nodes if node not in used}
            for node, reason in shortages.items():
                if reason is not None:
                    yield Refusal(job=job.id, task=task.id, node=node, reason=reason)
            if used or any(shortages.values()):
                continue
            why = "not enough capacity for the whole job" if nodes else _no_node(task, fog)
            yield Refusal(job=job.id, task=task.id, reason=why)


def _no_node(task: Task, fog: Fog) -> str:
    conditions = [] if task.pinned is None or task.remotely_readable else [f"site={task.pinned}"]
    conditions += [f"{label}={value}" for label, value in sorted(task.labels.items())]
    conditions += [f"the operator {operator}" for operator in task.operators]
    conditions += [f"{task.clock_mhz:g} MHz"] if task.clock_mhz else []
    found = f"no node with {', '.join(conditions)}" if conditions else "there is no node"
    is_confined = any(is_only_confined(task, node) for node in fog.nodes)
    return f"{found} that may use the sites {', '.join(task.sites)}" if is_confined else found
