"""The workloads of the benchmark: simulated insights, also with cost caps."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import msgspec
import numpy as np

from analytics_enabler.scheduling.model.constraints import HOUR_MS, CostCap
from analytics_enabler.scheduling.model.jobs import Assignment, Job, Placement
from analytics_enabler.scheduling.model.snapshot import Fog
from analytics_enabler.scheduling.prices import cost_per_hour
from analytics_enabler.simulation.environment import Environment
from analytics_enabler.simulation.topology import Topology, load_topology
from analytics_enabler.simulation.workload import simulated_jobs

_NODES = 1000
_INSIGHTS = 200
_SEED = 1
_SLACK_FACTOR = 3.0
_BINDING_SHARE = 0.3


@dataclass(frozen=True)
class World:
    """A fog at the beginning of a simulation, and its jobs; they name no scheduler."""

    name: str
    topology: Topology
    fog: Fog
    jobs: Sequence[Job]


def world(source: str) -> World:
    """Return the world with a topology (see ``load_topology``)."""
    places, work, changes = (np.random.default_rng([_SEED, part]) for part in range(3))
    topology = load_topology(source, _NODES, places)
    fog = Environment(topology, changes).fog(0.0)
    jobs = simulated_jobs(topology, _INSIGHTS, "", work)
    return World(source.partition(":")[0], topology, fog, jobs)


def with_slack(jobs: Sequence[Job], fast: Placement, fog: Fog) -> list[Job]:
    """Return jobs with a cap that is three times the cost of a fast placement."""
    return [_capped(job, _SLACK_FACTOR * cost_per_hour(job, fast, fog)) for job in jobs]


def with_binding_caps(jobs: Sequence[Job], fast: Placement, fog: Fog) -> list[Job]:
    """Return jobs with a cap between the cost of a fast placement and that of the cheapest one.

    In the cheapest placement, only the merge runs on another node.
    """
    capped = []
    for job in jobs:
        dear = cost_per_hour(job, fast, fog)
        cheap = min(cost_per_hour(job, each, fog) for each in _other_merges(job, fast, fog))
        capped.append(_capped(job, cheap + _BINDING_SHARE * (dear - cheap)))
    return capped


def _other_merges(job: Job, placement: Placement, fog: Fog) -> Iterator[Placement]:
    partials = [at for at in placement.of([job]).assignments if at.task != "merge"]
    for node in fog.by_name:
        yield Placement((*partials, Assignment(job=job.id, task="merge", node=node)))


def _capped(job: Job, per_hour: float) -> Job:
    return msgspec.structs.replace(job, cap=CostCap(amount=per_hour, per_ms=HOUR_MS))
