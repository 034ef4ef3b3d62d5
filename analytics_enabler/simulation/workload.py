"""The jobs of simulated insights: groups over the sites of a region."""

from collections.abc import Sequence

import numpy as np

from analytics.plan.demand import PARTIAL, RESULT
from analytics_enabler.scheduling.driver.traffic import PANE_BYTES
from analytics_enabler.scheduling.model.jobs import Job, Task, TaskStream
from analytics_enabler.simulation.topology import Topology

_INSIGHTS_PER_GROUP = 4
_REGIONS_OF_GROUP = 5
_CORES_PER_POINT = 2e-4
_CHECK_CORE_S = 1e-4
_POINTS_PER_S = (10.0, 500.0)
_KEYS = (1, 50)
_EVERY_S = (1, 10)


def simulated_jobs(
    topology: Topology, insights: int, scheduler: str, rng: np.random.Generator
) -> tuple[Job, ...]:
    """Return the jobs of groups of insights, spread evenly over the regions of a fog.

    One half of the groups read the sites with data of a region, the other half a site of each of
    several regions. Each site has a partial fragment, and each group a merge, whose results are
    stored at the hub of the (first) region.
    """
    regions = sorted(topology.regions)
    groups = max(1, -(-insights // _INSIGHTS_PER_GROUP))
    jobs = []
    for number, each in enumerate(np.array_split(np.arange(insights), groups)):
        region = regions[number % len(regions)]
        sites: Sequence[str] = topology.regions[region]
        if number % 2:
            sites = _across_regions(topology, region, rng)
        name, sink = f"group-{number:03d}", topology.hubs[region]
        jobs.append(_job(name, sites, sink, len(each), scheduler, rng))
    return tuple(jobs)


def _across_regions(topology: Topology, region: str, rng: np.random.Generator) -> list[str]:
    """Return a site of a region, and one of each of up to four other regions."""
    others = rng.permutation(sorted(set(topology.regions) - {region}))
    chosen = [region, *others[: _REGIONS_OF_GROUP - 1].tolist()]
    return [str(rng.choice(topology.regions[name])) for name in chosen]


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
