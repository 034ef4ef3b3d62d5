"""Lower bounds of the objectives of jobs that consist of partials and a merge.

Each job is alone in the fog, its merge may run on any node, and each partial has the best of its
nodes, whatever the others have. So no placement is better than the bound.
"""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from analytics_enabler.scheduling.builtin import energy, quality
from analytics_enabler.scheduling.builtin.eligibility import eligible_nodes
from analytics_enabler.scheduling.builtin.energy import limit_by_batteries, watts_per_core
from analytics_enabler.scheduling.model.jobs import Job, Task
from analytics_enabler.scheduling.model.snapshot import Fog, Node
from analytics_enabler.scheduling.prices import task_cost_per_hour, traffic_cost_per_hour

Values = Mapping[str, float]
"""Job -> value."""

_Floats = NDArray[np.float64]

_RESERVE = 0.2
"""The share of a battery that ``energy`` does not use."""


def paths(jobs: Sequence[Job], fog: Fog) -> Values:
    """Return the least critical path (ms) of each job."""
    return {job.id: float(_paths(job, fog).min()) for job in jobs}


def ratios(jobs: Sequence[Job], fog: Fog) -> Values:
    """Return the least latency (ms) / (1 + checked share), with all points checked."""
    return {job: (path + quality.LOCAL_MS) / 2 for job, path in paths(jobs, fog).items()}


def products(jobs: Sequence[Job], fog: Fog) -> Values:
    """Return the least (path + 1 ms) * power (W), where a battery can supply the merge."""
    watts = watts_per_core(fog)
    supplied = list(limit_by_batteries(fog, _RESERVE).by_name.values())
    values = {}
    for job in jobs:
        partials, merge = _split(job)
        power = _sum(partials, fog, lambda task, node: task.cores * watts[node.name])
        of_merge = merge.cores * np.array([watts[name] for name in fog.by_name])
        fits = [node.cores_free >= merge.cores for node in supplied]
        product = (_paths(job, fog) + energy.LOCAL_MS) * (power + of_merge)
        values[job.id] = float(product[fits].min())
    return values


def capped_paths(jobs: Sequence[Job], fog: Fog) -> Values:
    """Return the least critical path (ms) of each job within its cap; without a cap, of all."""
    values = {}
    for job in jobs:
        path = _paths(job, fog)
        if job.cap is not None:
            path = path[_costs(job, fog) <= job.cap.per_hour * (1 + 1e-9)]
        values[job.id] = float(path.min())
    return values


def _paths(job: Job, fog: Fog) -> _Floats:
    """Return the path (ms) from the farthest data through each node to the sink."""
    names = list(fog.by_name)
    sites = [task.pinned for task in job.tasks if task.pinned is not None]
    to_node, to_sink = fog.latencies_ms(sites, names), fog.latencies_ms(names, [job.sink])
    slowest: _Floats = to_node.max(axis=0) + to_sink[:, 0]
    return slowest


def _costs(job: Job, fog: Fog) -> _Floats:
    """Return the least cost per hour for each node of the merge."""
    partials, merge = _split(job)
    nodes = list(fog.by_name.values())
    costs = np.array([task_cost_per_hour(merge, node) for node in nodes])
    costs += _sum(partials, fog, task_cost_per_hour)
    rates = {stream.source: stream.bytes_per_s for stream in job.streams}
    sites = np.array([node.site for node in nodes])
    for task in partials:
        own = [fog.by_name[name] for name in eligible_nodes(task, fog)]
        leaving = min(traffic_cost_per_hour(rates[task.id], node) for node in own)
        costs += np.where(np.isin(sites, [node.site for node in own]), 0.0, leaving)
    return costs


def _sum(tasks: Sequence[Task], fog: Fog, amount: Callable[[Task, Node], float]) -> float:
    """Return the sum over the tasks of the least amount on any eligible node."""
    return sum(
        min(amount(task, fog.by_name[name]) for name in eligible_nodes(task, fog)) for task in tasks
    )


def _split(job: Job) -> tuple[list[Task], Task]:
    partials = [task for task in job.tasks if task.pinned is not None]
    (merge,) = (task for task in job.tasks if task.pinned is None)
    return partials, merge
