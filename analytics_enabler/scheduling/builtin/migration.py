"""The placement of jobs one after the other, where a migration must pay for itself.

The source is the specification, 4.2.4: schedulers run periodically. A migration has a cost of its
own, since a fragment runs twice during the handover (Heinze et al., "Latency-aware elastic scaling
for distributed data stream processing systems", DEBS 2014).
"""

from collections.abc import Callable, Mapping, Sequence, Set
from typing import Annotated

import msgspec

from analytics_enabler.scheduling.builtin.capacity import refusals
from analytics_enabler.scheduling.builtin.eligibility import NodeByTask, by_priority
from analytics_enabler.scheduling.builtin.fair import as_placement, spread
from analytics_enabler.scheduling.builtin.job_model import (
    NOWHERE,
    Amounts,
    JobModel,
    Numbers,
    must_stay,
    release,
    retain_running,
    running_nodes,
)
from analytics_enabler.scheduling.builtin.nodes_table import NodesTable
from analytics_enabler.scheduling.builtin.objective import Objective, ValuedPlacement, find
from analytics_enabler.scheduling.interface import Decision
from analytics_enabler.scheduling.model.jobs import Job, Placement
from analytics_enabler.scheduling.model.snapshot import Fog

_MOVE_S = 60.0
"""The cost of a migration of a task, as a duration (s) of the objective of its job."""

MIN_GAIN_MS = 5.0
"""The minimum difference of critical paths (ms) that counts for running tasks.

Smaller differences are about as large as the noise of the measured latencies.
"""

_MAX_ROUNDS = 3
"""The maximum number of rounds in which jobs are placed again, with the load of the others."""

_TOLERANCE = 1e-9

HorizonS = Annotated[
    float,
    msgspec.Meta(gt=0, description="the duration (s) within which a migration must pay for itself"),
]
DEFAULT_HORIZON_S = 600.0

Heuristic = Callable[[JobModel, Numbers], Numbers | None]


class Method(msgspec.Struct, frozen=True):
    """How a scheduler places a job.

    ``objective``, ``amounts``: of a job. ``horizon_s``: the duration (s) in which a migration must
    pay for itself. ``heuristics``: see ``find``.
    """

    objective: Callable[[Job], Objective]
    amounts: Callable[[NodesTable], Amounts]
    horizon_s: float = DEFAULT_HORIZON_S
    heuristics: tuple[Heuristic, ...] = ()


def place(jobs: Sequence[Job], fog: Fog, current: Placement, method: Method) -> Decision:
    """Return the decision about the jobs; each has the capacity that earlier jobs leave free.

    If an even spread of the tasks places more tasks, the jobs are placed again, starting from it.
    """
    jobs = by_priority(jobs, current)
    running = frozenset(job for job, _ in current.by_task)
    found = _place_jobs(jobs, fog, current, method, running=running)
    placement = _placement(jobs, fog, found)
    if _could_place_more(jobs, fog, placement):
        even = as_placement(spread(jobs, fog, current))
        if len(even.by_task) > len(placement.by_task):
            found = _place_jobs(jobs, fog, even, method, running=running, actual=current)
            placement = _placement(jobs, fog, found)
    rounds = _MAX_ROUNDS if len(jobs) > 1 and len(current.by_task) < len(placement.by_task) else 0
    for _ in range(rounds):
        # The first jobs were placed without the load of the later ones.
        found = _place_jobs(jobs, fog, placement, method, running=running)
        former, placement = placement, _placement(jobs, fog, found)
        if placement == former:
            break
    gaps = {job: each.gap for job, each in found.items() if each and each.gap is not None}
    return Decision(placement, tuple(refusals(jobs, fog, placement)), gaps)


def _placement(
    jobs: Sequence[Job], fog: Fog, found: Mapping[str, ValuedPlacement | None]
) -> Placement:
    names = list(fog.by_name)
    nodes: dict[str, NodeByTask] = {
        job.id: {
            task.id: names[node]
            for task, node in zip(job.in_order, each.nodes, strict=True)
            if node != NOWHERE
        }
        for job in jobs
        if (each := found[job.id]) is not None
    }
    return as_placement(nodes)


def _could_place_more(jobs: Sequence[Job], fog: Fog, placement: Placement) -> bool:
    """Return whether a task without a node would have one if it were alone in the fog."""
    table = NodesTable(fog, jobs)
    missing = [t for job in jobs for t in job.tasks if (job.id, t.id) not in placement.by_task]
    return any(table.fits(task, table.nodes_of(task)).any() for task in missing)


def _place_jobs(
    jobs: Sequence[Job],
    fog: Fog,
    start: Placement,
    method: Method,
    *,
    running: Set[str] = frozenset(),
    actual: Placement | None = None,
) -> dict[str, ValuedPlacement | None]:
    """Return job id -> its placement.

    ``running``: the jobs with running tasks, for which small differences of paths do not count.
    ``actual``: the nodes that run the tasks, if ``start`` is only a proposal, whose capacity is
    reserved for each job until the job is placed; None: the nodes in ``start``.
    """
    table = NodesTable(fog, jobs)
    amounts = method.amounts(table)
    retained = {job.id: retain_running(job, start, table) for job in jobs}
    found: dict[str, ValuedPlacement | None] = {}
    for job in jobs:
        release(job, retained[job.id], table)
        is_proposed = actual is not None and job.id not in running
        if actual is None or is_proposed:
            current, nodes = start, retained[job.id]
        else:
            current, nodes = actual, running_nodes(job, actual, table)
        model, stays = JobModel(job, table, amounts, nodes), must_stay(job, current, nodes)
        if is_proposed or all(node == NOWHERE for node in model.current):
            each = find(method.objective(job), model, None, method.heuristics)
        else:
            min_gain_ms = MIN_GAIN_MS if job.id in running else 0.0
            each = _move_job(model, method, min_gain_ms, stays=stays)
        found[job.id] = each
        if each is not None:
            model.allocate(each.nodes)
    return found


def _move_job(
    model: JobModel, method: Method, min_gain_ms: float, *, stays: bool
) -> ValuedPlacement | None:
    """Return the placement of a job with running tasks, which move only if this pays."""
    objective = method.objective(model.job)
    current = model.current
    staying = find(objective, model, current, method.heuristics)
    if staying is not None and staying.value.missing == 0 and staying.value.excess <= _TOLERANCE:
        if stays:
            return staying
        # No placement is better than the bound, and a migration moves at least one task.
        least = objective.least(model)
        if not _pays(staying.value.objective, least, 1, method.horizon_s):
            return staying
    best = find(objective, model, None, method.heuristics)
    if best is None or staying is None:
        return staying if best is None else best
    kept, value = staying.value, best.value
    if (value.missing, value.excess) < (kept.missing, kept.excess - _TOLERANCE):
        return best
    moved = sum(
        node not in (NOWHERE, other) for node, other in zip(current, best.nodes, strict=True)
    )
    if moved and not stays:
        is_better = value.missing <= kept.missing and value.excess <= kept.excess + _TOLERANCE
        better = _without_noise(objective, model, best, staying, min_gain_ms)
        if is_better and _pays(kept.objective, better, moved, method.horizon_s):
            return best
    return staying


def _without_noise(
    objective: Objective,
    model: JobModel,
    best: ValuedPlacement,
    staying: ValuedPlacement,
    min_gain_ms: float,
) -> float:
    """Return the objective of ``best``, with the path of ``staying`` if it differs too little."""
    path, other = model.path_ms(best.nodes), model.path_ms(staying.nodes)
    if abs(path - other) >= min_gain_ms:
        return best.value.objective
    return objective.at_path(best.value.objective, path, other)


def _pays(present: float, better: float, moved: int, horizon_s: float) -> bool:
    """Return whether the gain within the horizon exceeds the cost of the migrations."""
    return (present - better) * horizon_s > moved * _MOVE_S * present
