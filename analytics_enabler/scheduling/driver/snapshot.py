"""The snapshot of the fabric that schedulers receive."""

from collections.abc import Collection, Iterator, Mapping, Sequence

import msgspec

from analytics_enabler.scheduling.model.snapshot import Battery, Fog, Link, Node, SourceQuality
from mistbow.fabric import Battery as AnnouncedBattery
from mistbow.fabric import Fabric, Site, SiteLink, Worker

_NO_OTHERS: Mapping[str, float] = {}


def fog_of(
    fabric: Fabric,
    dead: Collection[str] = (),
    suspected: Collection[str] = (),
    others_mb: Mapping[str, float] = _NO_OTHERS,
    now_ms: int = 0,
    sources: Sequence[SourceQuality] = (),
) -> Fog:
    """Return the fog: a node for each available worker, and the measured links.

    ``dead``: the names of workers that are considered dead and have no node. ``suspected``: the
    names of workers that are suspected, in addition to those that the fabric suspects.
    ``others_mb``: worker -> the memory (MB) that fragments of other domains need, which is not
    free. ``now_ms``: the present time. ``sources``: the known qualities of sites' points. If only
    one direction of a link was measured, the other one gets the same figures.
    """
    nodes = {
        worker.name: _node(worker, site, now_ms, is_suspected=worker.name in suspected)
        for site, worker in available_workers(fabric)
    }
    for name in nodes.keys() & others_mb.keys():
        free_mb = max(nodes[name].memory_free_mb - others_mb[name], 0.0)
        nodes[name] = msgspec.structs.replace(nodes[name], memory_free_mb=free_mb)
    links = {(link.target, link.source): link for link in fabric.links}
    links |= {(link.source, link.target): link for link in fabric.links}
    return Fog(
        tuple(nodes[name] for name in sorted(nodes) if name not in dead),
        tuple(_link(*ends, links[ends]) for ends in sorted(links)),
        tuple(sources),
    )


def without_drained(fog: Fog) -> Fog:
    """Return the fog without the nodes that are drained, which receive no tasks."""
    nodes = tuple(node for node in fog.nodes if not node.drained)
    return msgspec.structs.replace(fog, nodes=nodes)


def _link(source: str, target: str, measured: SiteLink) -> Link:
    return Link(
        source=source,
        target=target,
        latency_ms=max(measured.latency_ms, 0.0),
        bandwidth_mbps=measured.bandwidth_mbps,
        loss=min(max(measured.loss or 0.0, 0.0), 1.0),
    )


def available_workers(fabric: Fabric) -> Iterator[tuple[Site, Worker]]:
    """Yield (site, worker) for each worker with capacity at a reachable or suspected site.

    The workers of a suspected site are suspected. Placements identify workers by name. If several
    workers have the same name, only one is available: one to whose identity the name belongs comes
    first, one at a suspected site last; then the one at the site whose name sorts first.
    """
    found = [
        (site, msgspec.structs.replace(worker, suspected=worker.suspected or site.suspected))
        for site in fabric.sites
        if site.reachable or site.suspected
        for worker in site.workers
        if worker.cores > 0 and worker.memory_mb > 0
    ]
    names: set[str] = set()
    for site, worker in sorted(found, key=_precedence):
        if worker.name not in names:
            names.add(worker.name)
            yield site, worker


def _precedence(of: tuple[Site, Worker]) -> tuple[bool, bool, str]:
    site, worker = of
    return not worker.has_proven_name, site.suspected, site.name


def _node(worker: Worker, site: Site, now_ms: int, *, is_suspected: bool) -> Node:
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
        suspected=is_suspected or worker.suspected,
        reliability=min(max(worker.reliability, 0.0), 1.0),
        power=worker.power,
        battery=None if worker.battery is None else _battery(worker.battery, now_ms),
        price_per_core_hour=worker.price_per_core_hour,
        price_per_gb=worker.price_per_gb,
        position=worker.position,
        drained=worker.drained,
        own_site_only=worker.own_site_only,
    )


def _battery(announced: AnnouncedBattery, now_ms: int) -> Battery:
    at = announced.next_charge_at
    return Battery(
        capacity_wh=announced.capacity_wh,
        charge_wh=announced.charge_wh,
        charging_w=announced.charging_w,
        next_charge_s=None if at is None else max(at - now_ms, 0) / 1000,
    )
