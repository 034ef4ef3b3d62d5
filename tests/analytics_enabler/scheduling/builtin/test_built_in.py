"""Properties of the decisions of all built-in schedulers."""

import itertools
import math
from collections.abc import Callable

import pytest
from hypothesis import given

from analytics_enabler.scheduling.builtin.fair import Fair
from analytics_enabler.scheduling.builtin.latency import Latency
from analytics_enabler.scheduling.interface import Decision, Scheduler
from analytics_enabler.scheduling.model.jobs import Job, Placement, critical_path_ms
from analytics_enabler.scheduling.model.snapshot import Fog
from analytics_enabler.scheduling.sandbox.validation import violations
from tests.analytics_enabler.scheduling import build

NOWHERE = Placement()


SCHEDULERS: dict[str, Callable[[], Scheduler]] = {"fair": Fair, "latency": Latency}


def decide(name: str, jobs: tuple[Job, ...], fog: Fog, current: Placement = NOWHERE) -> Decision:
    scheduler = SCHEDULERS[name]()
    scheduler.prepare({})
    return scheduler.schedule(jobs, fog, current)


def cost(jobs: tuple[Job, ...], fog: Fog, placement: Placement) -> tuple[int, float]:
    """Return the cost of a placement: (unplaced tasks, sum of the critical paths in ms)."""
    missing = sum(len(job.tasks) for job in jobs) - len(placement.by_task)
    return missing, sum(critical_path_ms(job, placement, fog) for job in jobs)


def brute_force(job: Job, fog: Fog) -> tuple[int, float]:
    """Return the minimum ``cost`` of all valid placements of a job."""
    choices = [[None, *fog.by_name] for _ in job.tasks]
    costs = [(len(job.tasks), 0.0)]
    refused = decide("fair", (job,), Fog(())).refusals
    pinned = [task for task in job.tasks if task.pinned]
    for nodes in itertools.product(*choices):
        at = {
            f"{job.id}_{task.id}": node for task, node in zip(job.tasks, nodes, strict=True) if node
        }
        placement = build.placed(**at)
        useful = not pinned or any((job.id, task.id) in placement.by_task for task in pinned)
        if at and useful and not violations(Decision(placement, refused), (job,), fog):
            costs.append(cost((job,), fog, placement))
    return min(costs)


def shuffled(fog: Fog, jobs: tuple[Job, ...]) -> tuple[Fog, tuple[Job, ...]]:
    other = [
        Job(
            id=job.id,
            tasks=job.tasks[::-1],
            streams=job.streams[::-1],
            scheduler=job.scheduler,
            sink=job.sink,
        )
        for job in jobs[::-1]
    ]
    return Fog(fog.nodes[::-1], fog.links[::-1]), tuple(other)


@pytest.mark.parametrize("name", SCHEDULERS)
@given(fog=build.fogs(), later=build.fogs(), jobs=build.several_jobs())
def test_decision_is_valid_and_deterministic(
    name: str, fog: Fog, later: Fog, jobs: tuple[Job, ...]
) -> None:
    first = decide(name, jobs, fog)
    assert violations(first, jobs, fog) == []
    # Later, other nodes are alive or have other free capacity.
    second = decide(name, jobs, later, first.placement)
    assert violations(second, jobs, later) == []
    other_fog, other_jobs = shuffled(later, jobs)
    other = decide(name, other_jobs, other_fog, Placement(first.placement.assignments[::-1]))
    assert other.placement == second.placement
    assert set(other.refusals) == set(second.refusals)


@pytest.mark.parametrize("name", SCHEDULERS)
@given(fog=build.fogs(), jobs=build.several_jobs())
def test_running_tasks_stay(name: str, fog: Fog, jobs: tuple[Job, ...]) -> None:
    current = decide(name, jobs, fog).placement
    again = decide(name, jobs, fog, current).placement
    if len(current.by_task) == sum(len(job.tasks) for job in jobs):
        assert again == current
    for job in jobs:
        assert len(again.of([job]).by_task) >= len(current.of([job]).by_task)


@given(fog=build.fogs(), jobs=build.several_jobs())
def test_latency_is_never_worse_than_fair(fog: Fog, jobs: tuple[Job, ...]) -> None:
    ours = cost(jobs, fog, decide("latency", jobs, fog).placement)
    fair = cost(jobs, fog, decide("fair", jobs, fog).placement)
    assert ours[0] <= fair[0]
    assert ours[0] < fair[0] or ours[1] <= fair[1] + 1e-6


@given(fog=build.fogs(), job=build.jobs("j"))
def test_latency_finds_the_shortest_critical_path(fog: Fog, job: Job) -> None:
    missing, path = cost((job,), fog, decide("latency", (job,), fog).placement)
    best_missing, best_path = brute_force(job, fog)
    assert missing == best_missing
    assert path == pytest.approx(best_path) or math.isinf(best_path)
