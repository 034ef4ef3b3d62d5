"""Benchmark of the schedulers on simulated fogs, compared with each other and with baselines.

``python -m benchmarks schedulers`` uses generated tiers, and the matrix of round-trip times whose
path is in ``MISTBOW_MATRIX`` (see docs/simulator.md).
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass

import msgspec
import numpy as np

from analytics_enabler.scheduling.model.jobs import (
    Job,
    Placement,
    TaskStream,
    critical_path_ms,
)
from analytics_enabler.scheduling.model.snapshot import Fog
from analytics_enabler.scheduling.registry import scheduler_names
from analytics_enabler.scheduling.sandbox.guard import decide
from analytics_enabler.simulation.baselines import BASELINES
from analytics_enabler.simulation.engine import InProcess
from analytics_enabler.simulation.environment import Environment
from analytics_enabler.simulation.metrics import Metrics, Sample
from analytics_enabler.simulation.topology import Topology, load_topology
from analytics_enabler.simulation.workload import simulated_jobs
from benchmarks.report import Figure, Report

_NODES = 1000
_INSIGHTS = 200
_SEED = 1
_MAX_S = 2.0
_MAX_AGAIN_S = 0.5
_LATENCY_SHARE = 0.7
"""The largest latency of ``latency``, as a share of that of ``fair``."""

_HOW = (
    "1,000 generated nodes, and 200 insights in 50 groups, each over up to five sites of a region, "
    "at the beginning of a simulation (docs/simulator.md). Times are CPU times of one call without "
    "the all-pairs latencies, which are computed once for each change of links. After that, the "
    "node with the merge of the first group is lost, and the scheduler is called again. One "
    "aggregation reads all sites, with one merge: p90 over the sites of the latency from the "
    "points to the results."
)


@dataclass(frozen=True)
class _Run:
    """A decision, its CPU time (s), and the placement."""

    sample: Sample
    seconds: float
    placement: Placement


def run() -> Report:
    """Compare all installed schedulers and the baselines; this takes a minute."""
    topologies = ["tiers"]
    if path := os.environ.get("MISTBOW_MATRIX"):
        topologies.append(f"matrix:{path}")
    figures = [figure for source in topologies for figure in _figures(source)]
    return Report("Schedulers", _HOW, figures)


def _figures(source: str) -> Iterator[Figure]:
    kind = source.partition(":")[0]
    places, work, changes = (np.random.default_rng([_SEED, part]) for part in range(3))
    topology = load_topology(source, _NODES, places)
    fog = Environment(topology, changes).fog(0.0)
    jobs = simulated_jobs(topology, _INSIGHTS, "fair", work)
    limit = None
    for name in ("fair", *sorted({*scheduler_names(), *BASELINES} - {"fair"})):
        own = [msgspec.structs.replace(job, scheduler=name) for job in jobs]
        first = _decide(own, fog, Placement())
        mean = _mean_latency(own, first.placement, fog)
        if name == "fair":
            limit = _LATENCY_SHARE * mean
        what, is_scheduler = f"{kind}, {name}", name not in BASELINES
        yield Figure(
            f"{what}: mean latency", "ms", [mean], at_most=limit if name == "latency" else None
        )
        yield Figure(f"{what}: p90 latency", "ms", [first.sample.latency_p90_ms])
        yield Figure(f"{what}: mean latency × power", "ms W", [mean * first.sample.power_w])
        yield Figure(f"{what}: cost", "1/h", [first.sample.cost_per_hour])
        yield Figure(f"{what}: checked share", "", [first.sample.quality])
        yield Figure(f"{what}: refused fragments", "", [first.sample.refused])
        yield Figure(
            f"{what}: call", "s", [first.seconds], at_most=_MAX_S if is_scheduler else None
        )
        lost = first.placement.by_task[own[0].id, "merge"][0].node
        left = fog.with_nodes(node for node in fog.nodes if node.name != lost)
        again = _decide(own, left, first.placement)
        limit_s = _MAX_AGAIN_S if is_scheduler else None
        yield Figure(f"{what}: call after a loss", "s", [again.seconds], at_most=limit_s)
        yield Figure(f"{what}: fragments of the lost node", "", [again.sample.displaced])
        yield Figure(f"{what}: other fragments moved", "", [again.sample.migrations])
    yield from _aggregation(kind, topology, fog, jobs[0])


def _aggregation(kind: str, topology: Topology, fog: Fog, like: Job) -> Iterator[Figure]:
    """Yield the latency from source to sink of one aggregation over all sites."""
    (partial, *_) = like.in_order
    merge = next(task for task in like.tasks if task.id == "merge")
    cloud = topology.nodes[0].site
    sites = sorted({node.site for node in fog.nodes} - {*topology.mobile})
    tasks = [
        msgspec.structs.replace(partial, id=f"at-{site}", cores=0.1, pinned=site) for site in sites
    ]
    for name in ("fair", "latency", "random", "greedy"):
        job = Job(
            id="everything",
            tasks=(*tasks, merge),
            streams=tuple(
                TaskStream(source=task.id, target="merge", bytes_per_s=100.0) for task in tasks
            ),
            scheduler=name,
            sink=cloud,
        )
        decided = _decide([job], fog, Placement())
        node = decided.placement.by_task["everything", "merge"][0].node
        paths = [
            fog.latency_ms(site, node) + fog.latency_ms(node, cloud)
            for site in sites
            if ("everything", f"at-{site}") in decided.placement.by_task
        ]
        what = f"{kind}, one aggregation over {len(sites)} sites, {name}"
        yield Figure(f"{what}: p90 latency", "ms", [float(np.percentile(paths, 90))])
        yield Figure(f"{what}: call", "s", [decided.seconds])


def _decide(jobs: list[Job], fog: Fog, current: Placement) -> _Run:
    call, metrics = InProcess(), Metrics(jobs)
    outcome = decide(jobs, fog, current, call=call)
    assert not outcome.problems, outcome.problems
    metrics.add(0.0, 1.0, fog, outcome, current)
    return _Run(metrics.samples[0], sum(call.seconds), outcome.decision.placement)


def _mean_latency(jobs: list[Job], placement: Placement, fog: Fog) -> float:
    placed = {job for job, _ in placement.by_task}
    paths = [critical_path_ms(job, placement, fog) for job in jobs if job.id in placed]
    return float(np.mean(paths))
