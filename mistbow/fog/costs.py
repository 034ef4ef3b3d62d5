"""What jobs cost, by the prices that nodes and sites have as labels, in any one currency."""

import math

from mistbow.fog.jobs import Job, Placement
from mistbow.fog.snapshot import Fog, Node

PRICE_PER_HOUR = "price_per_hour"
"""The label of a node: what all of it costs an hour."""

PRICE_PER_GB = "price_per_gb"
"""The label of a node or its site: what a GB (10^9 bytes) costs that leaves the site."""

_GB = 1e9
_HOUR_S = 3600


def price(node: Node, label: str) -> float:
    """Return a price of a node; 0 where it has none, infinite where that is no price.

    >>> edge = Node(name="e", site="x", cores=1, cores_free=1, memory_mb=9, memory_free_mb=9,
    ...     labels={"price_per_hour": "0.25", "price_per_gb": "cheap"})
    >>> price(edge, PRICE_PER_HOUR), price(edge, PRICE_PER_GB)
    (0.25, inf)
    """
    try:
        found = float(node.labels.get(label, "0"))
    except ValueError:
        return math.inf
    return found if found >= 0 else math.inf


def cost_per_hour(job: Job, placement: Placement, fog: Fog) -> float:
    """Return what a job costs an hour where it is placed.

    Of a node it pays the part that its tasks need, by the scarcer of cores and memory; of
    dedicated nodes, which are then all of ``fog``, the whole. Bytes are paid for where they leave
    a site for another task; results are few, and not counted.
    """
    return _of_nodes(job, placement, fog) + _of_bytes(job, placement, fog)


def _of_nodes(job: Job, placement: Placement, fog: Fog) -> float:
    if job.confined is not None and job.confined.dedicated:
        return sum(price(node, PRICE_PER_HOUR) for node in fog.nodes)
    total = 0.0
    for task in job.tasks:
        for at in placement.by_task.get((job.id, task.id), ()):
            node = fog.by_name[at.node]
            part = max(task.cores / node.cores, task.memory_mb / node.memory_mb)
            total += _product(at.share * part, price(node, PRICE_PER_HOUR))
    return total


def _of_bytes(job: Job, placement: Placement, fog: Fog) -> float:
    total = 0.0
    for stream in job.streams:
        for source in placement.by_task.get((job.id, stream.source), ()):
            leaving = sum(
                target.share
                for target in placement.by_task.get((job.id, stream.target), ())
                if fog.site_of(target.node) != fog.site_of(source.node)
            )
            gb = stream.bytes_per_s * source.share * leaving * _HOUR_S / _GB
            total += _product(gb, price(fog.by_name[source.node], PRICE_PER_GB))
    return total


def _product(amount: float, each: float) -> float:
    # 0 times infinity is no number.
    return amount * each if amount else 0.0


def cheapest(job: Job, fog: Fog) -> frozenset[str]:
    """Return the cheapest node of all, and of each site that has data of a job."""
    ranked = sorted(fog.nodes, key=lambda node: (price(node, PRICE_PER_HOUR), node.name))
    sites = {task.pinned for task in job.tasks}
    best = {node.site: node.name for node in reversed(ranked) if node.site in sites}
    return frozenset([*best.values(), *(node.name for node in ranked[:1])])
