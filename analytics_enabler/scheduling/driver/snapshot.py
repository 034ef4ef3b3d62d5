"""The snapshot of the fabric that schedulers receive."""

from collections.abc import Collection, Iterator

from analytics_enabler.scheduling.model.snapshot import Fog, Link, Node
from mistbow.fabric import Fabric, Site, Worker


def fog_of(fabric: Fabric, dead: Collection[str] = ()) -> Fog:
    """Return the fog: a node for each available worker, and the measured links.

    ``dead``: the names of workers that are considered dead and have no node. If only one direction
    of a link was measured, the other direction gets the same latency.
    """
    nodes = {worker.name: _node(worker, site) for site, worker in available_workers(fabric)}
    latencies = {(link.target, link.source): link.latency_ms for link in fabric.links}
    latencies |= {(link.source, link.target): link.latency_ms for link in fabric.links}
    return Fog(
        tuple(nodes[name] for name in sorted(nodes) if name not in dead),
        tuple(
            Link(source=source, target=target, latency_ms=max(latencies[source, target], 0.0))
            for source, target in sorted(latencies)
        ),
    )


def available_workers(fabric: Fabric) -> Iterator[tuple[Site, Worker]]:
    """Yield (site, worker) for each worker with capacity at a reachable site.

    Placements identify workers by name. If several workers have the same name, only the worker at
    the site whose name sorts first is available.
    """
    names: set[str] = set()
    for site in sorted(fabric.sites, key=lambda site: site.name):
        for worker in site.workers if site.reachable else ():
            if worker.cores > 0 and worker.memory_mb > 0 and worker.name not in names:
                names.add(worker.name)
                yield site, worker


def _node(worker: Worker, site: Site) -> Node:
    return Node(
        name=worker.name,
        site=site.name,
        cores=worker.cores,
        cores_free=min(max(worker.cores_free, 0.0), worker.cores),
        memory_mb=worker.memory_mb,
        memory_free_mb=min(max(worker.memory_free_mb, 0.0), worker.memory_mb),
        clock_mhz=worker.clock_mhz,
        region=worker.region or site.region,
        labels={**site.labels, **worker.labels},
        operators=worker.operators,
    )
