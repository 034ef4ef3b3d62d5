"""What each scheduler minimizes for a job, and a lower bound of it.

Both are computed here from placements and fogs, independently of the schedulers' own search.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from analytics_enabler.scheduling.builtin import energy, quality
from analytics_enabler.scheduling.builtin.energy import watts_per_core
from analytics_enabler.scheduling.builtin.quality import checked_share, with_checks
from analytics_enabler.scheduling.model.jobs import Job, Placement, critical_path_ms
from analytics_enabler.scheduling.model.snapshot import Fog
from benchmarks.schedulers import bounds
from benchmarks.schedulers.bounds import Values


@dataclass(frozen=True)
class Objective:
    """What a scheduler minimizes: the values of placed jobs, and their lower bounds."""

    unit: str
    values: Callable[[Sequence[Job], Placement, Fog], Values]
    bounds: Callable[[Sequence[Job], Fog], Values]


def _paths(jobs: Sequence[Job], placement: Placement, fog: Fog) -> Values:
    placed = {job for job, _ in placement.by_task}
    return {job.id: critical_path_ms(job, placement, fog) for job in jobs if job.id in placed}


def _products(jobs: Sequence[Job], placement: Placement, fog: Fog) -> Values:
    watts, paths = watts_per_core(fog), _paths(jobs, placement, fog)
    return {
        job.id: (paths[job.id] + energy.LOCAL_MS)
        * sum(
            task.cores * watts[at.node]
            for task in job.tasks
            for at in placement.by_task.get((job.id, task.id), ())
        )
        for job in jobs
        if job.id in paths
    }


def _ratios(jobs: Sequence[Job], placement: Placement, fog: Fog) -> Values:
    """Return latency / (1 + checked share); schedulers without checks check what they can, too."""
    checked = with_checks(jobs, fog, placement)
    return {
        job.id: (path + quality.LOCAL_MS) / (1 + checked_share(job, checked, fog))
        for job, path in zip(jobs, _paths(jobs, checked, fog).values(), strict=True)
    }


OBJECTIVES: Mapping[str, Objective] = {
    "latency": Objective("ms", _paths, bounds.paths),
    "quality": Objective("ms", _ratios, bounds.ratios),
    "energy": Objective("ms W", _products, bounds.products),
    "cost": Objective("ms", _paths, bounds.capped_paths),
}
"""Scheduler -> its objective for a job."""
