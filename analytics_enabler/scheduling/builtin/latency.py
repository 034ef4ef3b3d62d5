"""``latency``: minimizes the critical path within CPU and memory limits.

See the specification, section 4.2.4.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Annotated

import msgspec

from analytics_enabler.scheduling.builtin.branch_and_bound import INFEASIBLE, search
from analytics_enabler.scheduling.builtin.capacity import refusals
from analytics_enabler.scheduling.builtin.eligibility import NodeByTask, by_priority
from analytics_enabler.scheduling.builtin.fair import as_placement, spread
from analytics_enabler.scheduling.builtin.job_model import (
    NOWHERE,
    JobModel,
    Numbers,
    must_stay,
    no_amounts,
    release,
    retain_running,
    running_nodes,
)
from analytics_enabler.scheduling.builtin.migration import MIN_GAIN_MS
from analytics_enabler.scheduling.builtin.nodes_table import NodesTable
from analytics_enabler.scheduling.builtin.settings import settings_of
from analytics_enabler.scheduling.interface import Decision
from analytics_enabler.scheduling.model.jobs import Job, Placement, Setting, critical_path_ms
from analytics_enabler.scheduling.model.snapshot import Fog

_STEPS = 4_000
"""The maximum number of search steps for all jobs, about 0.1 ms each.

A time limit would make the result depend on the load of the machine.
"""

_ROUNDING_MS = 1e-6

_MARGIN = 0.1


class _Hysteresis(msgspec.Struct, frozen=True):
    """The least gain for which running tasks move: a share of the critical path, and ms."""

    margin: float
    min_gain_ms: float

    def is_exceeded(self, better: tuple[int, float], present: tuple[int, float]) -> bool:
        """Return whether a placement is clearly better than another one.

        ``better``, ``present``: (number of tasks that are not placed, critical path in ms).
        """
        if better[0] != present[0]:
            return better[0] < present[0]
        limit = min((1 - self.margin) * present[1], present[1] - self.min_gain_ms)
        return better[1] < present[1] and better[1] <= limit


_ANY_GAIN = _Hysteresis(0.0, 0.0)
_NO_GAIN = _Hysteresis(0.0, math.inf)


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
    min_gain_ms: Annotated[
        float,
        msgspec.Meta(
            ge=0, description="the minimum reduction (ms) of the critical path for a move"
        ),
    ] = MIN_GAIN_MS


class Latency:
    """Minimizes the slowest path from data to result; moves running tasks only for a clear gain."""

    Settings = LatencySettings

    def __init__(self) -> None:
        self._hysteresis = _Hysteresis(_MARGIN, MIN_GAIN_MS)

    def prepare(self, settings: Mapping[str, Setting]) -> None:
        """Store the settings; raises ``InvalidRequestError`` if a setting is out of range."""
        chosen = settings_of(LatencySettings, settings)
        self._hysteresis = _Hysteresis(chosen.margin, chosen.min_gain_ms)

    def schedule(self, jobs: tuple[Job, ...], fog: Fog, current: Placement) -> Decision:
        """Place the jobs one by one, each within the capacity that earlier jobs do not use.

        If an even spread of the tasks is clearly better, the jobs are placed again, each within the
        capacity that this spread leaves free for it.
        """
        jobs = tuple(by_priority(jobs, current))
        hysteresis = self._hysteresis if current.of(jobs).assignments else _ANY_GAIN
        placement = _place_jobs(jobs, fog, current, hysteresis)
        present, least = _cost(jobs, fog, placement), sum(_least_path_ms(job, fog) for job in jobs)
        if hysteresis.is_exceeded((0, least), present):
            # The first job may take capacity that others need more; then start from an even spread.
            even = as_placement(spread(jobs, fog, current))
            if hysteresis.is_exceeded(_cost(jobs, fog, even), present):
                other = _place_jobs(jobs, fog, even, hysteresis, actual=current)
                if hysteresis.is_exceeded(_cost(jobs, fog, other), present):
                    placement = other
        return Decision(placement, tuple(refusals(jobs, fog, placement)))


def _place_jobs(
    jobs: Sequence[Job],
    fog: Fog,
    start: Placement,
    hysteresis: _Hysteresis,
    actual: Placement | None = None,
) -> Placement:
    """Return the placement of the jobs, one by one, beside the nodes in ``start`` of later jobs.

    ``actual``: the nodes that run the tasks, if ``start`` is only a proposal; None: those in
    ``start``.
    """
    table = NodesTable(fog, jobs)
    amounts = no_amounts(table)
    retained = {job.id: retain_running(job, start, table) for job in jobs}
    running = {job for job, _ in (start if actual is None else actual).by_task}
    nodes: dict[str, NodeByTask] = {}
    for job in jobs:
        release(job, retained[job.id], table)
        current, here, least = start, retained[job.id], hysteresis
        if actual is not None and job.id in running:
            current, here = actual, running_nodes(job, actual, table)
        elif actual is not None:
            least = _ANY_GAIN
        model = JobModel(job, table, amounts, here)
        least = _NO_GAIN if must_stay(job, current, here) else least
        placed = _place_job(model, least, _STEPS // len(jobs))
        model.allocate(placed)
        nodes[job.id] = model.names(placed)
    return as_placement(nodes)


def _place_job(model: JobModel, hysteresis: _Hysteresis, steps: int) -> Numbers:
    if all(node == NOWHERE for node in model.current):
        return search(model, model.candidates, steps)[1]
    # Running tasks stay, and only the others are placed, unless moving is clearly better.
    fixed = model.fixed_candidates(model.current)
    staying, staying_nodes = search(model, fixed, steps)
    # No placement is better than this bound.
    if staying[0] == 0 and not hysteresis.is_exceeded((0, model.least_path_ms), staying[:2]):
        return staying_nodes
    best, nodes = search(model, model.candidates, steps)
    if staying != INFEASIBLE and not hysteresis.is_exceeded(best[:2], staying[:2]):
        return staying_nodes
    return nodes


def _least_path_ms(job: Job, fog: Fog) -> float:
    """Return a lower bound of the critical path (ms) of a job, up to rounding errors.

    A path through nodes is at least as long as the direct path from the data to the sink.
    """
    sites = {task.pinned for task in job.tasks if task.pinned is not None}
    direct = [fog.latency_ms(site, job.sink) for site in sites]
    return max((path for path in direct if path < math.inf), default=0.0) + _ROUNDING_MS


def _cost(jobs: Sequence[Job], fog: Fog, placement: Placement) -> tuple[int, float]:
    """Return (number of tasks that are not placed, sum of the critical paths in ms)."""
    missing = sum(len(job.tasks) for job in jobs) - len(placement.by_task)
    return missing, sum(critical_path_ms(job, placement, fog) for job in jobs)
