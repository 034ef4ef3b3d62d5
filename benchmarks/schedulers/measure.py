"""Measurements of a scheduler in a world: a first decision, and one after a loss of a node."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec
import numpy as np

from analytics_enabler.scheduling.model.jobs import Job, Placement
from analytics_enabler.scheduling.model.snapshot import Fog
from analytics_enabler.scheduling.prices import cost_per_hour
from analytics_enabler.scheduling.sandbox.guard import decide
from analytics_enabler.simulation.engine import InProcess
from benchmarks.schedulers.bounds import Values
from benchmarks.schedulers.objectives import Objective


@dataclass(frozen=True)
class Run:
    """The decision of a scheduler about jobs, and its decision after the loss of a node.

    ``seconds``, ``again_s``: the CPU times of the scheduler. ``needed``: the fragments of the lost
    node, and the moved fragments of jobs that would exceed their caps otherwise. ``made``: the
    fragments that moved, or that have no node any more.
    """

    scheduler: str
    jobs: Sequence[Job]
    fog: Fog
    placement: Placement
    seconds: float
    again_s: float
    needed: int
    made: int

    @property
    def complete(self) -> frozenset[str]:
        """The jobs whose fragments are all placed."""
        return frozenset(
            job.id
            for job in self.jobs
            if all((job.id, task.id) in self.placement.by_task for task in job.tasks)
        )

    @property
    def largest_share_of_cap(self) -> float:
        """The largest cost of a placed job, as a share of its cap; 0 without caps."""
        placed = {job for job, _ in self.placement.by_task}
        return max(
            (
                cost_per_hour(job, self.placement, self.fog) / job.cap.per_hour
                for job in self.jobs
                if job.cap is not None and job.id in placed
            ),
            default=0.0,
        )


def run_scheduler(name: str, jobs: Sequence[Job], fog: Fog) -> Run:
    """Decide about jobs, remove the node with the most fragments, and decide again."""
    own = [msgspec.structs.replace(job, scheduler=name) for job in jobs]
    placement, seconds = _decide(own, fog, Placement())
    fragments = Counter(at.node for at in placement.assignments)
    lost = min(fragments, key=lambda node: (-fragments[node], node))
    left = fog.with_nodes(node for node in fog.nodes if node.name != lost)
    after, again_s = _decide(own, left, placement)
    moved = {
        key
        for key, (before, *_) in placement.by_task.items()
        if key not in after.by_task or after.by_task[key][0].node != before.node
    }
    needed = {(at.job, at.task) for at in placement.assignments if at.node == lost}
    needed |= {key for key in moved - needed if _is_too_dear(key[0], own, left, placement, after)}
    return Run(name, own, fog, placement, seconds, again_s, len(needed), len(moved))


def _is_too_dear(
    name: str, jobs: Sequence[Job], fog: Fog, before: Placement, after: Placement
) -> bool:
    """Return whether a job exceeds its cap if only its fragments of the lost node move."""
    (job,) = (job for job in jobs if job.id == name)
    kept = {(at.job, at.task): at for at in after.of([job]).assignments}
    kept |= {(at.job, at.task): at for at in before.of([job]).assignments if at.node in fog.by_name}
    staying = Placement(tuple(kept.values()))
    return job.cap is not None and cost_per_hour(job, staying, fog) > job.cap.per_hour


def _decide(jobs: Sequence[Job], fog: Fog, current: Placement) -> tuple[Placement, float]:
    call = InProcess()
    outcome = decide(jobs, fog, current, call=call)
    assert not outcome.problems, outcome.problems
    return outcome.decision.placement, sum(call.seconds)


def mean_value(objective: Objective, run: Run) -> float:
    """Return the mean of the objective over the completely placed jobs."""
    return _mean(objective.values(run.jobs, run.placement, run.fog), run.complete)


def gap(objective: Objective, run: Run) -> float:
    """Return by how much the mean objective exceeds that of the lower bounds, as a share."""
    values = objective.values(run.jobs, run.placement, run.fog)
    bounds = objective.bounds(run.jobs, run.fog)
    return _mean(values, run.complete) / _mean(bounds, run.complete) - 1


def ratio(objective: Objective, run: Run, other: Run) -> tuple[float, int]:
    """Return (mean objective of a run as a share of that of another run, number of jobs).

    Only the jobs count that both runs place completely.
    """
    common = run.complete & other.complete
    means = [
        _mean(objective.values(each.jobs, each.placement, each.fog), common)
        for each in (run, other)
    ]
    return means[0] / means[1], len(common)


def _mean(values: Values, jobs: frozenset[str]) -> float:
    return float(np.mean([values[job] for job in sorted(jobs)]))
