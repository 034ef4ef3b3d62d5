"""Room on nodes: what is taken, what is left, and why a task does not fit."""

from collections.abc import Iterable, Iterator

import msgspec

from mistbow.fog.jobs import Job, Placement, Refusal, Task
from mistbow.fog.snapshot import Fog, Node

# Room is added and subtracted in floating point.
_TOLERANCE = 1e-6


class Room:
    """The cores and megabytes that are left on each node of a fog."""

    def __init__(self, fog: Fog) -> None:
        self._fog = fog
        self._cores = {node.name: node.cores_free for node in fog.nodes}
        self._memory = {node.name: node.memory_free_mb for node in fog.nodes}

    def take(self, task: Task, node: str, share: float = 1.0) -> None:
        """Give a node a share of a task, whether it fits or not; of -1, take the task away."""
        self._cores[node] -= share * task.cores
        self._memory[node] -= share * task.memory_mb

    def release(self, task: Task, node: str) -> None:
        """Take a task from a node."""
        self.take(task, node, -1.0)

    def lack(self, task: Task, node: str) -> str | None:
        """Say what a node lacks to run a task, if anything."""
        cores, memory = self._cores[node], self._memory[node]
        if task.cores > cores + _TOLERANCE:
            return f"{task.cores:g} cores needed, {max(cores, 0):.3g} free"
        if task.memory_mb > memory + _TOLERANCE:
            return f"{task.memory_mb:g} MB of memory needed, {max(memory, 0):.0f} free"
        return None

    def overfull(self) -> Iterator[str]:
        """Yield the nodes that have been given more than they had."""
        for node in self._cores:
            if min(self._cores[node], self._memory[node]) < -_TOLERANCE:
                yield node

    def load(self, node: str, task: Task | None = None) -> float:
        """Return how full a node is, 0 to 1, by its scarcest resource, or would be with a task."""
        cores, memory = self._cores[node], self._memory[node]
        if task is not None:
            cores, memory = cores - task.cores, memory - task.memory_mb
        whole = self._fog.by_name[node]
        return 1.0 - min(cores / whole.cores, memory / whole.memory_mb)

    def fog(self) -> Fog:
        """Return the fog with only that free which is left."""
        nodes = [
            msgspec.structs.replace(
                node,
                cores_free=max(self._cores[node.name], 0.0),
                memory_free_mb=max(self._memory[node.name], 0.0),
            )
            for node in self._fog.nodes
        ]
        return Fog(tuple(nodes), self._fog.links)


def unfit(task: Task, node: Node) -> str | None:
    """Say why a node may never run a task, however much room it has."""
    if task.pinned is not None and node.site != task.pinned:
        return f"its data is at {task.pinned}"
    for label, value in sorted(task.labels.items()):
        if node.attributes.get(label) != value:
            return f"it has not {label}={value}"
    for operator in task.operators:
        if operator not in node.operators:
            return f"the operator {operator} is not installed there"
    if node.clock_mhz < task.clock_mhz:
        return f"{task.clock_mhz:g} MHz needed, it has {node.clock_mhz:g}"
    return None


def fitting(task: Task, fog: Fog) -> list[str]:
    """Return the nodes that may run a task if they have room, by name."""
    return [name for name, node in fog.by_name.items() if unfit(task, node) is None]


def refusals(jobs: Iterable[Job], fog: Fog, placement: Placement) -> Iterator[Refusal]:
    """Yield which nodes that may run a task have no room for it, and for one that has no place
    on any node at least one reason.
    """
    jobs = list(jobs)
    room = Room(fog)
    for job in jobs:
        for task in job.tasks:
            for at in placement.by_task.get((job.id, task.id), ()):
                room.take(task, at.node, at.share)
    for job in jobs:
        for task in job.in_order:
            at_nodes = {at.node for at in placement.by_task.get((job.id, task.id), ())}
            nodes = fitting(task, fog)
            full = {node: room.lack(task, node) for node in nodes if node not in at_nodes}
            for node, reason in full.items():
                if reason is not None:
                    yield Refusal(job=job.id, task=task.id, node=node, reason=reason)
            if at_nodes or any(full.values()):
                continue
            reason = "no room for the whole job" if nodes else _nowhere(task)
            yield Refusal(job=job.id, task=task.id, reason=reason)


def _nowhere(task: Task) -> str:
    wanted = [] if task.pinned is None else [f"site={task.pinned}"]
    wanted += [f"{label}={value}" for label, value in sorted(task.labels.items())]
    wanted += [f"the operator {operator}" for operator in task.operators]
    wanted += [f"{task.clock_mhz:g} MHz"] if task.clock_mhz else []
    return f"no node with {', '.join(wanted)}" if wanted else "no node"


def in_turn(jobs: Iterable[Job], current: Placement) -> list[Job]:
    """Return jobs in the order in which they get room: those that run first, then by id."""
    running = {job for job, _ in current.by_task}
    return sorted(jobs, key=lambda job: (job.id not in running, job.id))
