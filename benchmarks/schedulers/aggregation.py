"""One aggregation over all sites: the latency from the points to the results."""

from collections.abc import Sequence

import msgspec
import numpy as np

from analytics_enabler.scheduling.model.jobs import Job, TaskStream
from analytics_enabler.scheduling.model.snapshot import Fog
from benchmarks.schedulers.measure import Run, run_scheduler
from benchmarks.schedulers.workloads import World

_NAMES = ("fair", "random", "greedy", "latency")
_BYTES_PER_S = 100.0


def aggregation_rows(here: World) -> list[tuple[str, ...]]:
    """Return a row for ``latency`` and each sink, with the p90 over the sites as its objective.

    The sinks are the cloud, and the first site, which is the sink of NEMO (docs/simulator.md).
    """
    sites = sorted({node.site for node in here.fog.nodes} - {*here.topology.mobile})
    sinks = dict.fromkeys([here.topology.nodes[0].site, sites[0]])
    return [_row(here, _aggregation(here, sites, sink)) for sink in sinks]


def _row(here: World, job: Job) -> tuple[str, ...]:
    fog = here.fog
    runs = {name: run_scheduler(name, [job], fog) for name in _NAMES}
    run, own = runs["latency"], _p90(runs["latency"], fog)
    return (
        "latency",
        f"{here.name}, one aggregation over {len(job.tasks) - 1} sites, to {job.sink}",
        f"{own:,.4g} ms (p90)",
        f"{own / float(np.percentile(_direct(job, fog), 90)) - 1:.1%}",
        *(f"{own / _p90(runs[name], fog):.3f}" for name in _NAMES[:3]),
        f"{run.seconds:.2f}",
        f"{run.again_s:.2f}",
        f"{run.needed}, {run.made}",
    )


def _aggregation(here: World, sites: Sequence[str], sink: str) -> Job:
    (partial, *_) = here.jobs[0].in_order
    merge = next(task for task in here.jobs[0].tasks if task.id == "merge")
    tasks = [
        msgspec.structs.replace(partial, id=f"at-{site}", cores=0.1, pinned=site) for site in sites
    ]
    streams = [
        TaskStream(source=task.id, target="merge", bytes_per_s=_BYTES_PER_S) for task in tasks
    ]
    return Job(
        id="everything", tasks=(*tasks, merge), streams=tuple(streams), scheduler="", sink=sink
    )


def _p90(run: Run, fog: Fog) -> float:
    (job,) = run.jobs
    node = run.placement.by_task[job.id, "merge"][0].node
    paths = [
        fog.latency_ms(task.pinned, node) + fog.latency_ms(node, job.sink)
        for task in job.tasks
        if task.pinned is not None and (job.id, task.id) in run.placement.by_task
    ]
    return float(np.percentile(paths, 90))


def _direct(job: Job, fog: Fog) -> list[float]:
    return [fog.latency_ms(task.pinned, job.sink) for task in job.tasks if task.pinned is not None]
