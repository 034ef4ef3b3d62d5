"""The fabric as schedulers see it."""

from collections.abc import Collection, Iterator

from mistbow.fabric import Fabric, Site, Worker
from mistbow.fog.snapshot import Fog, Link, Node


def fog_of(fabric: Fabric, dead: Collection[str] = ()) -> Fog:
    """Return the workers that can run something now, but for the ``dead``, and the links.

    Where only one way of a link was measured, the way back is taken to be as long.
    """
    nodes = {worker.name: _node(worker, site) for site, worker in workers_of(fabric)}
    ways = {(link.target, link.source): link.latency_ms for link in fabric.links}
    ways |= {(link.source, link.target): link.latency_ms for link in fabric.links}
    return Fog(
        tuple(nodes[name] for name in sorted(nodes) if name not in dead),
        tuple(
            Link(source=source, target=target, latency_ms=max(ways[source, target], 0.0))
            for source, target in sorted(ways)
        ),
    )


def workers_of(fabric: Fabric) -> Iterator[tuple[Site, Worker]]:
    """Yield the workers that can run something, each with its site, by their names.

    Of two with the same name, the one at the first site counts, for a placement says only names.
    """
    seen: set[str] = set()
    for site in sorted(fabric.sites, key=lambda site: site.name):
        for worker in site.workers if site.reachable else ():
            if worker.cores > 0 and worker.memory_mb > 0 and worker.name not in seen:
                seen.add(worker.name)
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
