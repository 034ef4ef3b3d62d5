"""What is to run on a fog, and where a scheduler puts it."""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from functools import cached_property
from graphlib import TopologicalSorter

import msgspec

from mistbow.fog.constraints import Cap, Confinement
from mistbow.fog.snapshot import Fog

Setting = str | float | bool | tuple[str | float | bool, ...]
"""What a query says of one setting of its scheduler."""


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """One fragment: what it needs of a node, and which nodes may run it.

    A node may if it has all the ``labels`` (or is of that ``node``, ``site``, ``region``) and all
    the ``operators``, its clock is no slower than ``clock_mhz``, and it is at the site to which the
    task is ``pinned``, where its data is.
    """

    id: str
    cores: float
    memory_mb: float
    clock_mhz: float = 0.0
    labels: Mapping[str, str] = {}
    operators: tuple[str, ...] = ()
    pinned: str | None = None

    def __post_init__(self) -> None:
        if not (0 <= self.cores < math.inf and 0 <= self.memory_mb < math.inf):
            raise ValueError(f"task {self.id} needs {self.cores} cores, {self.memory_mb} MB")


class Stream(msgspec.Struct, frozen=True, kw_only=True):
    """What a task reads of another, and how much of it is expected."""

    source: str
    target: str
    bytes_per_s: float = 0.0


class Job(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """Tasks that are placed together by a scheduler, and the site where their result is wanted.

    ``settings`` are the scheduler's for this job. A job that is confined or has a cap is shown to
    its scheduler alone, on the nodes that it may have.

    Raises ``ValueError`` where a stream leads nowhere or back.
    """

    id: str
    tasks: tuple[Task, ...]
    streams: tuple[Stream, ...] = ()
    scheduler: str
    settings: Mapping[str, Setting] = {}
    sink: str
    confined: Confinement | None = None
    cap: Cap | None = None

    def __post_init__(self) -> None:
        known = {task.id for task in self.tasks}
        if len(known) < len(self.tasks):
            raise ValueError(f"job {self.id}: two tasks have the same id")
        for stream in self.streams:
            for end in (stream.source, stream.target):
                if end not in known:
                    raise ValueError(f"job {self.id}: a stream names an unknown task {end}")
        _ = self.in_order

    @property
    def question(self) -> str:
        """A name for what a scheduler is asked at once: jobs with the same name are of one."""
        given = ", ".join(f"{key}={value}" for key, value in sorted(self.settings.items()))
        settings = f"({given})" if given else ""
        alone = self.confined is not None or self.cap is not None
        return f"{self.scheduler}{settings}{f' for {self.id}' if alone else ''}"

    @cached_property
    def in_order(self) -> tuple[Task, ...]:
        """The tasks, each after all that it reads, whatever the order in which they are given."""
        tasks = {task.id: task for task in sorted(self.tasks, key=lambda task: task.id)}
        graph = {task: sorted(self.inputs[task]) for task in tasks}
        return tuple(tasks[task] for task in TopologicalSorter(graph).static_order())

    @cached_property
    def inputs(self) -> dict[str, dict[str, float]]:
        """For each task, how many bytes a second it reads of which others."""
        inputs: dict[str, dict[str, float]] = {task.id: {} for task in self.tasks}
        for stream in sorted(self.streams, key=lambda stream: (stream.target, stream.source)):
            of = inputs[stream.target]
            of[stream.source] = of.get(stream.source, 0.0) + stream.bytes_per_s
        return inputs


class Assignment(msgspec.Struct, frozen=True, kw_only=True):
    """A node that runs a task for a share of its input, which takes that share of its needs."""

    job: str
    task: str
    node: str
    share: float = 1.0


class Placement(msgspec.Struct, frozen=True, dict=True):
    """Which nodes run which tasks."""

    assignments: tuple[Assignment, ...] = ()

    @cached_property
    def by_task(self) -> dict[tuple[str, str], tuple[Assignment, ...]]:
        """The assignments of each (job, task) that has any."""
        found: dict[tuple[str, str], tuple[Assignment, ...]] = defaultdict(tuple)
        for assignment in self.assignments:
            found[assignment.job, assignment.task] += (assignment,)
        return dict(found)

    def of(self, jobs: Iterable[Job]) -> "Placement":
        """Return the part that concerns some jobs' tasks."""
        tasks = {(job.id, task.id) for job in jobs for task in job.tasks}
        return Placement(tuple(a for a in self.assignments if (a.job, a.task) in tasks))


class Refusal(msgspec.Struct, frozen=True, kw_only=True):
    """Why a node does not run a task; without a node: why none does."""

    job: str
    task: str
    reason: str
    node: str | None = None


def critical_path_ms(job: Job, placement: Placement, fog: Fog) -> float:
    """Return the latency of the slowest path from a job's data to its sink, over links only.

    Whatever runs is on its way to the sink, even where the task that would read it has no place.
    """
    # When the slowest row is at each node of a task.
    ready: dict[str, dict[str, float]] = {}
    slowest = 0.0
    for task in job.in_order:
        ready[task.id] = {}
        for assignment in placement.by_task.get((job.id, task.id), ()):
            node = assignment.node
            from_data = 0.0 if task.pinned is None else fog.latency_ms(task.pinned, node)
            at = max(
                [from_data]
                + [
                    before + fog.latency_ms(source, node)
                    for input_ in job.inputs[task.id]
                    for source, before in ready[input_].items()
                ]
            )
            ready[task.id][node] = at
            # The straight way to the sink is no longer than that through the tasks to come.
            slowest = max(slowest, at + fog.latency_ms(node, job.sink))
    return slowest
