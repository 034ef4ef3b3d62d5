"""``latency``: minimizes the critical path within CPU and memory limits.

See the specification, section 4.2.4.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Annotated

import msgspec

from analytics_enabler.scheduling.builtin.branch_and_bound import (
    INFEASIBLE,
    SearchProblem,
    search,
)
from analytics_enabler.scheduling.builtin.capacity import FreeCapacity, refusals
from analytics_enabler.scheduling.builtin.eligibility import by_priority, eligible_nodes
from analytics_enabler.scheduling.builtin.fair import (
    NodeByTask,
    as_placement,
    retain_running,
    spread,
)
from analytics_enabler.scheduling.interface import Decision
from analytics_enabler.scheduling.model.jobs import Job, Placement, Setting, critical_path_ms
from analytics_enabler.scheduling.model.snapshot import Fog
from mistbow.errors import InvalidRequestError

_STEPS = 40_000
"""The maximum number of search steps for all jobs, about 5 µs each.

A time limit would make the result depend on the load of the machine.
"""

_MARGIN = 0.1


class LatencySettings(msgspec.Struct, frozen=True):
    """The settings that a query may set for the scheduler ``latency``."""

    margin: Annotated[
        float,
        msgspec.Meta(
            ge=0,
            lt=1,
            description="the share by which a job's critical path must shrink for a move, "
            "from 0 to below 1",
        ),
    ] = _MARGIN


class Latency:
    """Minimizes the slowest path from data to result; moves running tasks only for a clear gain."""

    Settings = LatencySettings

    def __init__(self) -> None:
        self._margin = _MARGIN

    def prepare(self, settings: Mapping[str, Setting]) -> None:
        """Store the settings; raises ``InvalidRequestError`` if ``margin`` is out of range."""
        try:
            self._margin = msgspec.convert(dict(settings), LatencySettings, strict=False).margin
        except msgspec.ValidationError:
            raise InvalidRequestError(
                f"margin must be at least 0 and below 1 (got {settings['margin']!r})"
            ) from None

    def schedule(self, jobs: tuple[Job, ...], fog: Fog, current: Placement) -> Decision:
        """Place the jobs one by one, each in the capacity that earlier jobs leave free.

        If an even spread of the tasks is clearly better, the jobs are placed again, starting from
        this spread.
        """
        jobs = tuple(by_priority(jobs, current))
        margin = self._margin if current.of(jobs).assignments else 0.0
        placement = _place_jobs(jobs, fog, current, margin)
        # The first job may take capacity that others need more; then start from an even spread.
        even = as_placement(spread(jobs, fog, current))
        if _clearly_less(_cost(jobs, fog, even), _cost(jobs, fog, placement), margin):
            placement = _place_jobs(jobs, fog, even, 0.0)
        return Decision(placement, tuple(refusals(jobs, fog, placement)))


def _place_jobs(jobs: Sequence[Job], fog: Fog, start: Placement, margin: float) -> Placement:
    free = FreeCapacity(fog)
    nodes = {job.id: retain_running(job, fog, start, free) for job in jobs}
    for job in jobs:
        current = nodes[job.id]
        for task in job.tasks:
            if task.id in current:
                free.release(task, current[task.id])
        nodes[job.id] = _place_job(job, fog, free, current, margin, _STEPS // len(jobs))
        for task in job.tasks:
            if task.id in nodes[job.id]:
                free.allocate(task, nodes[job.id][task.id])
    return as_placement(nodes)


def _place_job(
    job: Job, fog: Fog, free: FreeCapacity, current: NodeByTask, margin: float, steps: int
) -> NodeByTask:
    eligible = {task.id: eligible_nodes(task, fog) for task in job.tasks}
    if not current:
        return search(SearchProblem(job, fog, eligible, current), free, steps)[1]
    # Running tasks stay, and only the others are placed, unless moving is clearly better.
    fixed = {**eligible, **{task: [node] for task, node in current.items()}}
    staying, staying_nodes = search(SearchProblem(job, fog, fixed, current), free, steps)
    if staying[0] == 0 and not _clearly_less((0, _shortest_ms(job, fog)), staying[:2], margin):
        return staying_nodes
    best, nodes = search(SearchProblem(job, fog, eligible, current), free, steps)
    if staying != INFEASIBLE and not _clearly_less(best[:2], staying[:2], margin):
        return staying_nodes
    return nodes


def _shortest_ms(job: Job, fog: Fog) -> float:
    """Return a lower bound of the critical path (ms) of all placements of a job.

    A path through nodes is at least as long as the direct path from the data to the sink.
    """
    sources = [
        [task.pinned, *task.read_at] if task.read_at else [task.pinned]
        for task in job.tasks
        if task.pinned is not None
    ]
    nearest = (min(fog.latency_ms(site, job.sink) for site in sites) for sites in sources)
    return max((latency for latency in nearest if latency < math.inf), default=0.0)


def _clearly_less(one: tuple[int, float], other: tuple[int, float], margin: float) -> bool:
    return one[0] < other[0] or (one[0] == other[0] and one[1] < (1 - margin) * other[1])


def _cost(jobs: Sequence[Job], fog: Fog, placement: Placement) -> tuple[int, float]:
    """Return (number of tasks that are not placed, sum of the critical paths in ms)."""
    missing = sum(len(job.tasks) for job in jobs) - len(placement.by_task)
    return missing, sum(critical_path_ms(job, placement, fog) for job in jobs)
