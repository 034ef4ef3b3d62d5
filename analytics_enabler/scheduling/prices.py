"""The cost of jobs. All prices are in the same arbitrary currency.

A node declares its prices, or has them as labels of its own or of its site.
"""

import math

from analytics_enabler.scheduling.model.jobs import Job, Placement, Task
from analytics_enabler.scheduling.model.snapshot import Fog, Node

PRICE_PER_HOUR = "price_per_hour"
"""The label for the price of a complete node per hour."""

PRICE_PER_GB = "price_per_gb"
"""The label, of a node or its site, for the price per GB (10^9 bytes) that leaves the site."""

_GB = 1e9
_HOUR_S = 3600


def price_per_hour(node: Node) -> float:
    """Return the price of a complete node for an hour: 0 if it has none, ``inf`` if it is invalid.

    >>> edge = Node(name="e", site="x", cores=2, cores_free=1, memory_mb=9, memory_free_mb=9,
    ...     labels={"price_per_hour": "0.25", "price_per_gb": "cheap"})
    >>> price_per_hour(edge), price_per_gb(edge)
    (0.25, inf)
    >>> from msgspec.structs import replace
    >>> price_per_hour(replace(edge, price_per_core_hour=0.5))
    1.0
    """
    if node.price_per_core_hour is not None:
        return node.price_per_core_hour * node.cores
    return _labelled_price(node, PRICE_PER_HOUR)


def price_per_gb(node: Node) -> float:
    """Return the price of a GB (10^9 bytes) that leaves the site of a node, as above."""
    if node.price_per_gb is not None:
        return node.price_per_gb
    return _labelled_price(node, PRICE_PER_GB)


def _labelled_price(node: Node, label: str) -> float:
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


def task_cost_per_hour(task: Task, node: Node, checked: float = 0.0) -> float:
    """Return the cost per hour of a task on a node, without traffic.

    ``checked``: the share of the task's points whose quality is checked.
    """
    cores = task.cores + checked * task.check_cores
    part = max(cores / node.cores, task.memory_mb / node.memory_mb)
    return _product(part, price_per_hour(node))


def traffic_cost_per_hour(bytes_per_s: float, source: Node) -> float:
    """Return the cost per hour of bytes that leave the site of the node ``source``."""
    return _product(bytes_per_s * _HOUR_S / _GB, price_per_gb(source))


def _cost_of_nodes(job: Job, placement: Placement, fog: Fog) -> float:
    if job.confined is not None and job.confined.dedicated:
        return sum(price_per_hour(node) for node in fog.nodes)
    return sum(
        assignment.share
        * task_cost_per_hour(task, fog.by_name[assignment.node], assignment.checked)
        for task in job.tasks
        for assignment in placement.by_task.get((job.id, task.id), ())
    )


def _cost_of_traffic(job: Job, placement: Placement, fog: Fog) -> float:
    total = 0.0
    for stream in job.streams:
        for source in placement.by_task.get((job.id, stream.source), ()):
            leaving_share = sum(
                target.share
                for target in placement.by_task.get((job.id, stream.target), ())
                if fog.site_of(target.node) != fog.site_of(source.node)
            )
            leaving = stream.bytes_per_s * source.share * leaving_share
            total += traffic_cost_per_hour(leaving, fog.by_name[source.node])
    return total


def _product(amount: float, unit_price: float) -> float:
    # 0 times infinity would be NaN.
    return amount * unit_price if amount else 0.0


def cheapest_nodes(job: Job, fog: Fog) -> frozenset[str]:
    """Return the names of the nodes with the lowest prices for a job.

    These are the node with the lowest price per hour in ``fog``, and the node with the lowest price
    per hour at each site that stores data of the job. Nodes with equal prices are ordered by name.
    """
    ranked = sorted(fog.nodes, key=lambda node: (price_per_hour(node), node.name))
    sites = {task.pinned for task in job.tasks}
    best = {node.site: node.name for node in reversed(ranked) if node.site in sites}
    return frozenset([*best.values(), *(node.name for node in ranked[:1])])
