"""The cost of jobs. Nodes and sites have prices as labels, all in the same arbitrary currency."""

import math

from analytics_enabler.scheduling.model.jobs import Job, Placement
from analytics_enabler.scheduling.model.snapshot import Fog, Node

PRICE_PER_HOUR = "price_per_hour"
"""The label for the price of a complete node per hour."""

PRICE_PER_GB = "price_per_gb"
"""The label, of a node or its site, for the price per GB (10^9 bytes) that leaves the site."""

_GB = 1e9
_HOUR_S = 3600


def price(node: Node, label: str) -> float:
    """Return the price that a label of a node contains: 0 without the label, ``inf`` if invalid.

    >>> edge = Node(name="e", site="x", cores=1, cores_free=1, memory_mb=9, memory_free_mb=9,
    ...     labels={"price_per_hour": "0.25", "price_per_gb": "cheap"})
    >>> price(edge, PRICE_PER_HOUR), price(edge, PRICE_PER_GB)
    (0.25, inf)
    """
    try:
        value = float(node.labels.get(label, "0"))
    except ValueError:
        return math.inf
    return value if value >= 0 else math.inf


def cost_per_hour(job: Job, placement: Placement, fog: Fog) -> float:
    """Return the cost per hour of a job with this placement.

    A job pays for the share of each node that its tasks demand: the greater of the shares of cores
    and memory. A job with dedicated nodes pays for all nodes in ``fog`` instead; ``fog`` then
    contains only these nodes. A job also pays for the bytes that its tasks send to tasks at other
    sites. Results are free, because they are small.
    """
    return _cost_of_nodes(job, placement, fog) + _cost_of_traffic(job, placement, fog)


def _cost_of_nodes(job: Job, placement: Placement, fog: Fog) -> float:
    if job.confined is not None and job.confined.dedicated:
        return sum(price(node, PRICE_PER_HOUR) for node in fog.nodes)
    total = 0.0
    for task in job.tasks:
        for assignment in placement.by_task.get((job.id, task.id), ()):
            node = fog.by_name[assignment.node]
            part = max(task.cores / node.cores, task.memory_mb / node.memory_mb)
            total += _product(assignment.share * part, price(node, PRICE_PER_HOUR))
    return total


def _cost_of_traffic(job: Job, placement: Placement, fog: Fog) -> float:
    total = 0.0
    for stream in job.streams:
        for source in placement.by_task.get((job.id, stream.source), ()):
            leaving_share = sum(
                target.share
                for target in placement.by_task.get((job.id, stream.target), ())
                if fog.site_of(target.node) != fog.site_of(source.node)
            )
            gb = stream.bytes_per_s * source.share * leaving_share * _HOUR_S / _GB
            total += _product(gb, price(fog.by_name[source.node], PRICE_PER_GB))
    return total


def _product(amount: float, unit_price: float) -> float:
    # 0 times infinity would be NaN.
    return amount * unit_price if amount else 0.0


def cheapest_nodes(job: Job, fog: Fog) -> frozenset[str]:
    """Return the names of the nodes with the lowest prices for a job.

    These are the node with the lowest price per hour in ``fog``, and the node with the lowest price
    per hour at each site that stores data of the job. Nodes with equal prices are ordered by name.
    """
    ranked = sorted(fog.nodes, key=lambda node: (price(node, PRICE_PER_HOUR), node.name))
    sites = {task.pinned for task in job.tasks}
    best = {node.site: node.name for node in reversed(ranked) if node.site in sites}
    return frozenset([*best.values(), *(node.name for node in ranked[:1])])
