"""The jobs of simulated insights: groups over the sites of a region."""

from collections.abc import Sequence

import numpy as np

from analytics.plan.demand import PARTIAL, RESULT
from analytics_enabler.scheduling.driver.traffic import PANE_BYTES
from analytics_enabler.scheduling.model.jobs import Job, Task, TaskStream
from analytics_enabler.simulation.topology import Topology

_INSIGHTS_PER_GROUP = 4
_CORES_PER_POINT = 2e-4
_CHECK_CORE_S = 1e-4
_POINTS_PER_S = (10.0, 500.0)
_KEYS = (1, 50)
_EVERY_S = (1, 10)


def simulated_jobs(
    topology: Topology, insights: int, scheduler: str, rng: np.random.Generator
) -> tuple[Job, ...]:
    """Return the jobs of groups of insights, spread evenly over the regions of a fog.

    Each group reads all sites with data of its region: a partial fragment for each site, and a
    merge, whose results are stored at the hub of the region.
    """
    regions = sorted(topology.regions)
    groups = max(1, -(-insights // _INSIGHTS_PER_GROUP))
    sizes = [len(each) for each in np.array_split(np.arange(insights), groups)]
    return tuple(
        _job(
            f"group-{number:03d}",
            topology.regions[regions[number % len(regions)]],
            topology.hubs[regions[number % len(regions)]],
            size,
            scheduler,
            rng,
        )
        for number, size in enumerate(sizes)
    )


def _job(
    name: str,
    sites: Sequence[str],
    sink: str,
    insights: int,
    scheduler: str,
    rng: np.random.Generator,
) -> Job:
    tasks, streams = [], []
    for site in sites:
        points = float(rng.uniform(*_POINTS_PER_S))
        keys, every = int(rng.integers(*_KEYS)), int(rng.integers(*_EVERY_S))
        tasks.append(
            Task(
                id=f"at-{site}",
                cores=PARTIAL.cores + points * _CORES_PER_POINT * insights,
                memory_mb=PARTIAL.memory_mb,
                pinned=site,
                remotely_readable=True,
                points_per_s=points,
                check_core_s=_CHECK_CORE_S,
            )
        )
        rate = insights * keys * PANE_BYTES / every
        streams.append(TaskStream(source=f"at-{site}", target="merge", bytes_per_s=rate))
    tasks.append(Task(id="merge", cores=RESULT.cores * insights, memory_mb=RESULT.memory_mb))
    return Job(id=name, tasks=tuple(tasks), streams=tuple(streams), scheduler=scheduler, sink=sink)
