"""Random small instances, and the optimum of each by brute force."""

import itertools
import random
from dataclasses import dataclass

import msgspec
import numpy as np
from numpy.typing import NDArray

from analytics_enabler.scheduling.builtin.eligibility import eligible_nodes
from analytics_enabler.scheduling.model.jobs import Job, Task, TaskStream
from analytics_enabler.scheduling.model.snapshot import Battery, Fog, Link, Node
from mistbow.fabric import Power

CHECK_CORE_S = 0.001


def random_fog(rng: random.Random) -> Fog:
    """Return a fog of 2 to 5 nodes at 2 to 4 sites, where all links and facts are known."""
    sites = [f"s{number}" for number in range(rng.randint(2, 4))]
    nodes = [_random_node(rng, f"n{number}", sites) for number in range(rng.randint(2, 5))]
    links = [
        Link(source=one, target=other, latency_ms=float(rng.randint(1, 100)))
        for one, other in itertools.permutations(sites, 2)
    ]
    return Fog(tuple(nodes), tuple(links))


def _random_node(rng: random.Random, name: str, sites: list[str]) -> Node:
    cores, memory = rng.choice([1.0, 2.0, 4.0, 8.0]), rng.choice([1024.0, 2048.0, 8192.0])
    idle = rng.uniform(1, 20)
    return Node(
        name=name,
        site=rng.choice(sites),
        cores=cores,
        cores_free=cores * rng.choice([0.5, 1.0]),
        memory_mb=memory,
        memory_free_mb=memory * rng.choice([0.5, 1.0]),
        power=Power(idle_w=idle, full_w=idle + rng.uniform(1, 50)),
        battery=_random_battery(rng),
        price_per_core_hour=rng.uniform(0.01, 1),
        price_per_gb=rng.uniform(0, 5),
    )


def _random_battery(rng: random.Random) -> Battery | None:
    if rng.random() < 0.6:
        return None
    charge = rng.uniform(10, 200)
    return Battery(capacity_wh=200, charge_wh=charge, next_charge_s=rng.uniform(3600, 36000))


def random_job(rng: random.Random, fog: Fog) -> Job:
    """Return a job of 2 to 6 tasks; a task sends its output to one or two later tasks."""
    sites = sorted({link.source for link in fog.links})
    count = rng.randint(2, 6)
    tasks = [
        Task(
            id=f"t{number}",
            cores=rng.choice([0.1, 0.3, 0.5, 1.0]),
            memory_mb=rng.choice([128.0, 270.0, 512.0]),
            pinned=site,
            remotely_readable=site is not None,
            points_per_s=0.0 if site is None else rng.uniform(100, 3000),
            check_core_s=CHECK_CORE_S,
        )
        for number in range(count)
        for site in [rng.choice([None, *sites]) if number < count - 1 else None]
    ]
    streams = [
        TaskStream(source=f"t{source}", target=f"t{target}", bytes_per_s=rng.uniform(0, 1e5))
        for source in range(count - 1)
        for target in rng.sample(
            range(source + 1, count), rng.randint(1, min(2, count - 1 - source))
        )
    ]
    return Job(
        id="j", tasks=tuple(tasks), streams=tuple(streams), scheduler="x", sink=rng.choice(sites)
    )


@dataclass(frozen=True)
class BruteForce:
    """All placements of a job with the most tasks; each array has an element for each of them.

    ``missing``: the number of tasks that they lack. ``watts``: the sum over the tasks of cores x
    power per core. ``load``: the largest load of a node with a task. ``data_ms``: placement x
    task: the latency from the data of the task.
    """

    missing: int
    path: NDArray[np.float64]
    cost: NDArray[np.float64]
    watts: NDArray[np.float64]
    checked: NDArray[np.float64]
    load: NDArray[np.float64]
    data_ms: NDArray[np.float64]


def brute_force(job: Job, fog: Fog) -> BruteForce | None:
    """Return all valid placements with the most tasks; None: no placement is valid."""
    tasks, names = job.in_order, list(fog.by_name)
    choices = [[names.index(name) for name in eligible_nodes(task, fog)] for task in tasks]
    for missing in range(len(tasks)):
        with_none = [
            [*nodes, -1] if task.pinned is not None and missing else nodes
            for task, nodes in zip(tasks, choices, strict=True)
        ]
        if not all(with_none):
            if missing or any(
                task.pinned is None and not nodes
                for task, nodes in zip(tasks, choices, strict=True)
            ):
                return None
            continue
        at = np.array(list(itertools.product(*with_none)))
        at = at[(at == -1).sum(axis=1) == missing]
        pinned = [number for number, task in enumerate(tasks) if task.pinned is not None]
        if pinned:
            at = at[(at[:, pinned] != -1).any(axis=1)]
        if len(at := at[_fit(job, fog, at)]):
            return BruteForce(missing, *_figures(job, fog, at))
    return None


def _demand(job: Job, fog: Fog, at: NDArray[np.int_], per_task: list[float]) -> NDArray[np.float64]:
    """Return the sum of a figure of the tasks on each node: placement x node."""
    total = np.zeros((len(at), len(fog.nodes)))
    for number, figure in enumerate(per_task):
        for node in range(len(fog.nodes)):
            total[:, node] += figure * (at[:, number] == node)
    return total


def _fit(job: Job, fog: Fog, at: NDArray[np.int_]) -> NDArray[np.bool_]:
    nodes = fog.by_name.values()
    cores = _demand(job, fog, at, [task.cores for task in job.in_order])
    memory = _demand(job, fog, at, [task.memory_mb for task in job.in_order])
    fits = (cores <= np.array([node.cores_free for node in nodes]) + 1e-9) & (
        memory <= np.array([node.memory_free_mb for node in nodes]) + 1e-9
    )
    return np.asarray(fits.all(axis=1))


def _figures(job: Job, fog: Fog, at: NDArray[np.int_]) -> tuple[NDArray[np.float64], ...]:
    """Return the figures of each placement, in the order of ``BruteForce``."""
    tasks, nodes = job.in_order, list(fog.by_name.values())
    sites = [node.site for node in nodes]
    between = np.array([[fog.latency_ms(one, other) for other in sites] for one in sites])
    position = {task.id: number for number, task in enumerate(tasks)}
    ready: list[NDArray[np.float64]] = []
    data: list[NDArray[np.float64]] = []
    path, cost, watts = np.zeros(len(at)), np.zeros(len(at)), np.zeros(len(at))
    for number, task in enumerate(tasks):
        here, is_placed = at[:, number], at[:, number] >= 0
        own = np.zeros(len(at))
        if task.pinned is not None:
            own = is_placed * np.array([fog.latency_ms(task.pinned, site) for site in sites])[here]
        data.append(own)
        for source, rate in job.inputs[task.id].items():
            there = at[:, position[source]]
            both = is_placed & (there >= 0)
            arrival = ready[position[source]] + between[there, here]
            own = np.where(both, np.maximum(own, arrival), own)
            leaves = both & (np.array(sites)[there] != np.array(sites)[here])
            per_byte = np.array([node.price_per_gb for node in nodes])[there] * 3600 / 1e9
            cost += leaves * rate * per_byte
        ready.append(own)
        sink = np.array([fog.latency_ms(site, job.sink) for site in sites])[here]
        path = np.maximum(path, is_placed * (own + sink))
        shares = np.array(
            [max(task.cores / node.cores, task.memory_mb / node.memory_mb) for node in nodes]
        )
        prices = np.array([node.price_per_core_hour * node.cores for node in nodes])
        cost += is_placed * (shares * prices)[here]
        per_core = [(node.power.full_w - node.power.idle_w) / node.cores for node in nodes]
        watts += is_placed * task.cores * np.array(per_core)[here]
    used = _demand(job, fog, at, [task.cores for task in tasks])
    needed = _demand(job, fog, at, [task.points_per_s * CHECK_CORE_S for task in tasks])
    free = np.array([node.cores_free for node in nodes]) - used
    total = sum(task.points_per_s for task in tasks) * CHECK_CORE_S
    checked = np.minimum(np.maximum(free, 0), needed).sum(axis=1) / (total or 1)
    return path, cost, watts, checked, _largest_load(job, fog, at), np.stack(data, axis=1)


def _largest_load(job: Job, fog: Fog, at: NDArray[np.int_]) -> NDArray[np.float64]:
    cores = _demand(job, fog, at, [task.cores for task in job.in_order])
    memory = _demand(job, fog, at, [task.memory_mb for task in job.in_order])
    for number, node in enumerate(fog.by_name.values()):
        cores[:, number] = (node.cores - node.cores_free + cores[:, number]) / node.cores
        used_mb = node.memory_mb - node.memory_free_mb
        memory[:, number] = (used_mb + memory[:, number]) / node.memory_mb
    is_used = np.stack([(at == number).any(axis=1) for number in range(len(fog.nodes))], axis=1)
    return np.asarray((np.maximum(cores, memory) * is_used).max(axis=1))


def with_cap(job: Job, cap: object) -> Job:
    """Return a job with another cost cap."""
    return msgspec.structs.replace(job, cap=cap)
