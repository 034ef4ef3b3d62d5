"""The built-in schedulers against the optimum of their objective, on random small instances."""

import random
from collections.abc import Callable
from dataclasses import dataclass

import msgspec
import numpy as np
import pytest

from analytics_enabler.scheduling.builtin import energy, quality
from analytics_enabler.scheduling.builtin.capacity import FreeCapacity
from analytics_enabler.scheduling.builtin.cost import Cost
from analytics_enabler.scheduling.builtin.energy import Energy, limit_by_batteries, watts_per_core
from analytics_enabler.scheduling.builtin.fair import Fair
from analytics_enabler.scheduling.builtin.latency import Latency
from analytics_enabler.scheduling.builtin.quality import Quality, checked_share
from analytics_enabler.scheduling.interface import Scheduler
from analytics_enabler.scheduling.model.constraints import HOUR_MS, CostCap
from analytics_enabler.scheduling.model.jobs import (
    Job,
    Placement,
    critical_path_ms,
    data_latency_ms,
)
from analytics_enabler.scheduling.model.snapshot import Fog
from analytics_enabler.scheduling.prices import cost_per_hour
from analytics_enabler.scheduling.sandbox.validation import violations
from tests.analytics_enabler.scheduling.instances import (
    BruteForce,
    brute_force,
    random_fog,
    random_job,
)

SAMPLE, ALL = 40, 500
MAX_MEAN_EXCESS = 0.02
SAME_LATENCY_MS = 1.0


def product(job: Job, placement: Placement, fog: Fog) -> float:
    watts = watts_per_core(fog)
    power = sum(
        task.cores * watts[at.node]
        for task in job.tasks
        for at in placement.by_task.get((job.id, task.id), ())
    )
    return (critical_path_ms(job, placement, fog) + energy.LOCAL_MS) * power


def ratio(job: Job, placement: Placement, fog: Fog) -> float:
    path = critical_path_ms(job, placement, fog) + quality.LOCAL_MS
    return path / (1 + checked_share(job, placement, fog))


def largest_load(job: Job, placement: Placement, fog: Fog) -> float:
    """Return the largest load of a node with a task, as a share of its cores or its memory."""
    free = FreeCapacity(fog)
    free.allocate_jobs([job], placement)
    return max(free.load(at.node) for at in placement.assignments)


def least_load(found: BruteForce, job: Job, placement: Placement, fog: Fog) -> float:
    """Return the least largest load, of the placements with each task as near to its data."""
    nodes = {at.task: at.node for at in placement.assignments}
    data_ms = [
        data_latency_ms(task, nodes[task.id], fog) if task.id in nodes else 0.0
        for task in job.in_order
    ]
    is_near = (found.data_ms <= np.array(data_ms) + SAME_LATENCY_MS).all(axis=1)
    return float(found.load[is_near].min())


@dataclass(frozen=True)
class Case:
    """A scheduler, its objective for a placement, and for all placements of a brute force.

    ``limit``: returns the fog whose free capacity the brute force may use. ``sample``: the number
    of instances, enough for a stable mean, of a short test.
    """

    scheduler: Callable[[], Scheduler]
    objective: Callable[[Job, Placement, Fog], float]
    optimum: Callable[[BruteForce, Job, Placement, Fog], float]
    limit: Callable[[Fog], Fog] = lambda fog: fog
    sample: int = SAMPLE


def affordable_path(found: BruteForce, job: Job, *_: object) -> float:
    assert job.cap is not None
    return float(found.path[found.cost <= job.cap.per_hour].min())


CASES = {
    "fair": Case(Fair, largest_load, least_load, sample=ALL),
    "latency": Case(Latency, critical_path_ms, lambda found, *_: float(found.path.min())),
    "energy": Case(
        Energy,
        product,
        lambda found, *_: float(((found.path + energy.LOCAL_MS) * found.watts).min()),
        lambda fog: limit_by_batteries(fog, 0.2),
    ),
    "cost": Case(Cost, critical_path_ms, affordable_path),
    "quality": Case(
        Quality,
        ratio,
        lambda found, *_: float(((found.path + quality.LOCAL_MS) / (1 + found.checked)).min()),
    ),
}


def excesses(name: str, count: int) -> list[float]:
    """Return the relative excess of the objective over the optimum, for each instance.

    Asserts that each decision is valid, and has as many tasks as the optimum.
    """
    case, found_excesses = CASES[name], []
    for seed in range(count):
        rng = random.Random(seed)  # noqa: S311
        fog = random_fog(rng)
        job = random_job(rng, fog)
        found = brute_force(job, case.limit(fog))
        if name == "cost" and found is not None:
            cap = float(np.quantile(found.cost, rng.choice([0.0, 0.2, 0.5, 1.0]))) * (1 + 1e-9)
            job = msgspec.structs.replace(job, cap=CostCap(amount=cap, per_ms=HOUR_MS))
        scheduler = case.scheduler()
        scheduler.prepare({})
        decision = scheduler.schedule((job,), fog, Placement())
        assert violations(decision, [job], fog) == [], seed
        placed = len(decision.placement.by_task)
        assert placed == (0 if found is None else len(job.tasks) - found.missing), seed
        if found is None:
            continue
        if job.cap is not None:
            cost = cost_per_hour(job, decision.placement, fog)
            assert cost <= job.cap.per_hour * (1 + 1e-5), seed
        value = case.objective(job, decision.placement, fog)
        best = case.optimum(found, job, decision.placement, fog)
        assert value >= best * (1 - 1e-5) - 1e-9, seed
        found_excesses.append(value / best - 1 if best else value)
    return found_excesses


@pytest.mark.parametrize("name", CASES)
@pytest.mark.integration
def test_scheduler_is_near_the_optimum_of_a_sample(name: str) -> None:
    assert np.mean(excesses(name, CASES[name].sample)) <= MAX_MEAN_EXCESS


@pytest.mark.parametrize("name", CASES)
@pytest.mark.soak
def test_scheduler_is_near_the_optimum(name: str) -> None:
    found = excesses(name, ALL)
    print(
        f"{name}: {len(found)} instances, mean excess {np.mean(found):.3%}, "
        f"largest {max(found):.3%}, optimal {np.mean(np.array(found) < 1e-6):.1%}"
    )
    assert np.mean(found) <= MAX_MEAN_EXCESS
