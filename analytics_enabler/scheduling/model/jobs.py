"""Jobs and their tasks, and the placements and refusals that a scheduler returns."""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from functools import cached_property
from graphlib import TopologicalSorter

import msgspec

from analytics_enabler.scheduling.model.constraints import Constraint, CostCap
from analytics_enabler.scheduling.model.snapshot import Fog

Setting = str | float | bool | tuple[str | float | bool, ...]
"""The value of a scheduler's setting, as a query writes it."""


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """One fragment as a scheduler sees it: its demand, and the conditions on a node to run it.

    A node fits if all of these conditions are true: the node has all the ``labels`` (``node``,
    ``site`` and ``region`` are treated as labels); all the ``operators`` are installed on the node;
    the clock speed of the node is at least ``clock_mhz``.

    ``pinned``: the site that stores the data of the task; None: the task reads no site's data. If
    a fitting node is at this site, only the fitting nodes there are eligible. Otherwise, every
    fitting node is eligible, and reads the data over the network, if the task is
    ``remotely_readable``. ``remote_reader``: a node at another site that reads the data now, and is
    eligible too, since the task was moved there a moment ago.

    ``avoided``: the nodes that do not fit the task, because they are hot spots, and the task leaves
    them.

    ``sites``: the sites whose streams the task reads or writes. A node that may use its own site
    only does not fit a task of other sites.

    ``points_per_s``: the points per second that the task reads; 0: unknown. ``check_core_s``: the
    CPU time (s) of one core to check the quality of one point. The checks of a share ``checked`` of
    the points need ``checked * check_cores`` cores in addition to ``cores``.
    """

    id: str
    cores: float
    memory_mb: float
    clock_mhz: float = 0.0
    labels: Mapping[str, str] = {}
    operators: tuple[str, ...] = ()
    pinned: str | None = None
    remotely_readable: bool = False
    remote_reader: str | None = None
    avoided: tuple[str, ...] = ()
    points_per_s: float = 0.0
    check_core_s: float = 0.0
    sites: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not 0 <= self.check_cores < math.inf:
            raise ValueError(
                f"task {self.id}: the points per second and the CPU time of a check must be finite "
                f"and at least 0 (got {self.points_per_s} and {self.check_core_s})"
            )
        if not (0 <= self.cores < math.inf and 0 <= self.memory_mb < math.inf):
            raise ValueError(
                f"task {self.id}: its demand must be finite and at least 0 "
                f"(got {self.cores} cores, {self.memory_mb} MB)"
            )

    @property
    def check_cores(self) -> float:
        """The number of cores that the checks of all points of the task need."""
        return self.points_per_s * self.check_core_s


def data_latency_ms(task: Task, node: str, fog: Fog) -> float:
    """Return the latency in ms from the data of a task to a node; 0 for a task without data."""
    return 0.0 if task.pinned is None else fog.latency_ms(task.pinned, node)


class TaskStream(msgspec.Struct, frozen=True, kw_only=True):
    """A stream between tasks: ``target`` reads the output of ``source``.

    ``bytes_per_s``: the estimated traffic.
    """

    source: str
    target: str
    bytes_per_s: float = 0.0


class Job(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """Tasks that a scheduler places together; the site ``sink`` receives the results of the job.

    ``settings``: the scheduler's settings for this job. ``stays``: whether running tasks move only
    if they must, because the job was moved recently. A job with a constraint (``confined``) or a
    cost cap (``cap``) has a scheduling request of its own.

    Raises ``ValueError`` if two tasks have the same id, if a stream names an unknown task, or if
    the streams form a cycle.
    """

    id: str
    tasks: tuple[Task, ...]
    streams: tuple[TaskStream, ...] = ()
    scheduler: str
    settings: Mapping[str, Setting] = {}
    sink: str
    confined: Constraint | None = None
    cap: CostCap | None = None
    stays: bool = False

    def __post_init__(self) -> None:
        task_ids = {task.id for task in self.tasks}
        if len(task_ids) < len(self.tasks):
            raise ValueError(f"job {self.id}: two tasks have the same id")
        for stream in self.streams:
            for end in (stream.source, stream.target):
                if end not in task_ids:
                    raise ValueError(f"job {self.id}: a stream names an unknown task {end}")
        _ = self.in_order

    @property
    def request_name(self) -> str:
        """The name of the scheduling request that includes this job."""
        values = ", ".join(f"{key}={value}" for key, value in sorted(self.settings.items()))
        settings = f"({values})" if values else ""
        alone = self.confined is not None or self.cap is not None
        return f"{self.scheduler}{settings}{f' for {self.id}' if alone else ''}"

    @cached_property
    def in_order(self) -> tuple[Task, ...]:
        """The tasks in a topological order that does not depend on the order of ``tasks``."""
        tasks = {task.id: task for task in sorted(self.tasks, key=lambda task: task.id)}
        graph = {task: sorted(self.inputs[task]) for task in tasks}
        return tuple(tasks[task] for task in TopologicalSorter(graph).static_order())

    @cached_property
    def inputs(self) -> dict[str, dict[str, float]]:
        """The inputs of each task: task -> task that sends the input -> bytes per second."""
        inputs: dict[str, dict[str, float]] = {task.id: {} for task in self.tasks}
        for stream in sorted(self.streams, key=lambda stream: (stream.target, stream.source)):
            of = inputs[stream.target]
            of[stream.source] = of.get(stream.source, 0.0) + stream.bytes_per_s
        return inputs


class Assignment(msgspec.Struct, frozen=True, kw_only=True):
    """The assignment of a task to a node.

    ``share``: the share of the task's input that the node processes; the node needs the same share
    of the task's demand. ``checked``: the share of this input whose quality the node checks.
    """

    job: str
    task: str
    node: str
    share: float = 1.0
    checked: float = 0.0


class Placement(msgspec.Struct, frozen=True, dict=True):
    """The assignments of tasks to nodes."""

    assignments: tuple[Assignment, ...] = ()

    @cached_property
    def by_task(self) -> dict[tuple[str, str], tuple[Assignment, ...]]:
        """The assignments for each placed task: (job, task) -> assignments."""
        by_task: dict[tuple[str, str], tuple[Assignment, ...]] = defaultdict(tuple)
        for assignment in self.assignments:
            by_task[assignment.job, assignment.task] += (assignment,)
        return dict(by_task)

    def of(self, jobs: Iterable[Job]) -> "Placement":
        """Return a placement with only the assignments of tasks of ``jobs``."""
        tasks = {(job.id, task.id) for job in jobs for task in job.tasks}
        return Placement(tuple(a for a in self.assignments if (a.job, a.task) in tasks))


class Refusal(msgspec.Struct, frozen=True, kw_only=True):
    """The reason why ``node`` does not run a task.

    If ``node`` is None, the reason explains why no node runs the task.
    """

    job: str
    task: str
    reason: str
    node: str | None = None


def critical_path_ms(job: Job, placement: Placement, fog: Fog) -> float:
    """Return the latency in ms of the slowest path from the data of a job to its sink.

    Only the latencies of links are included. The output of each placed task is assumed to be sent
    to the sink, even if the task that reads this output is not placed.
    """
    # The latency of the slowest row from the data to each node of a task.
    ready: dict[str, dict[str, float]] = {}
    slowest = 0.0
    for task in job.in_order:
        ready[task.id] = {}
        for assignment in placement.by_task.get((job.id, task.id), ()):
            node = assignment.node
            at = max(
                [data_latency_ms(task, node, fog)]
                + [
                    before + fog.latency_ms(source, node)
                    for input_ in job.inputs[task.id]
                    for source, before in ready[input_].items()
                ]
            )
            ready[task.id][node] = at
            # The direct path to the sink is at most as long as one through later tasks.
            slowest = max(slowest, at + fog.latency_ms(node, job.sink))
    return slowest
