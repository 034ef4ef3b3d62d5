"""The metrics of the fog snapshot, which schedulers receive, by node, link and site."""

from collections.abc import Callable, Iterator

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from analytics_enabler.scheduling.model.snapshot import Fog, Link, Node, SourceQuality
from analytics_enabler.scheduling.prices import price_per_gb, price_per_hour

_MEGABYTE = 2**20

_OF_NODES: dict[str, tuple[str, Callable[[Node], float | None]]] = {
    "mistbow_node_free_cores": ("Free cores of a worker.", lambda node: node.cores_free),
    "mistbow_node_free_memory_bytes": (
        "Free memory of a worker.",
        lambda node: node.memory_free_mb * _MEGABYTE,
    ),
    "mistbow_node_reliability_ratio": (
        "From 0 to 1; lower after failures of the worker.",
        lambda node: node.reliability,
    ),
    "mistbow_node_suspected": (
        "1 if the worker may have failed.",
        lambda node: float(node.suspected),
    ),
    "mistbow_node_price_per_hour": ("Price of a worker's node for an hour.", price_per_hour),
    "mistbow_node_price_per_gigabyte": (
        "Price of a GB that leaves the site of a worker.",
        price_per_gb,
    ),
    "mistbow_node_idle_watts": (
        "Power of a worker's node without load.",
        lambda node: None if node.power is None else node.power.idle_w,
    ),
    "mistbow_node_full_watts": (
        "Power of a worker's node with full load.",
        lambda node: None if node.power is None else node.power.full_w,
    ),
    "mistbow_node_battery_charge_ratio": (
        "Charge of the battery of a worker's node, of its capacity.",
        lambda node: (
            None if node.battery is None else node.battery.charge_wh / node.battery.capacity_wh
        ),
    ),
    "mistbow_node_battery_charging_watts": (
        "Power with which the battery of a worker's node is charged.",
        lambda node: None if node.battery is None else node.battery.charging_w,
    ),
    "mistbow_node_latitude_degrees": (
        "Latitude of a worker's node.",
        lambda node: None if node.position is None else node.position.latitude,
    ),
    "mistbow_node_longitude_degrees": (
        "Longitude of a worker's node.",
        lambda node: None if node.position is None else node.position.longitude,
    ),
}

_OF_LINKS: dict[str, tuple[str, Callable[[Link], float | None]]] = {
    "mistbow_link_latency_seconds": ("Latency of a link.", lambda link: link.latency_ms / 1000),
    "mistbow_link_loss_ratio": ("Share of packets that a link loses.", lambda link: link.loss),
    "mistbow_link_bandwidth_bits_per_second": (
        "Data rate of a link.",
        lambda link: None if link.bandwidth_mbps is None else link.bandwidth_mbps * 1e6,
    ),
}

_OF_SITES: dict[str, tuple[str, Callable[[SourceQuality], float | None]]] = {
    "mistbow_site_completeness_ratio": (
        "Share of the expected points of a site that were received.",
        lambda source: source.completeness,
    ),
    "mistbow_site_timeliness_ratio": (
        "Share of the points of a site that were not late.",
        lambda source: source.timeliness,
    ),
    "mistbow_site_accuracy_ratio": (
        "Share of the points of a site within their declared range.",
        lambda source: source.accuracy,
    ),
}


class FogCollector(Collector):
    """Collects the fog snapshot at each scrape; ``fog``: returns the snapshot; None: unknown."""

    def __init__(self, fog: Callable[[], Fog | None]) -> None:
        self._fog = fog

    def describe(self) -> list[Metric]:
        """Return no names, so that a process can have several enablers."""
        return []

    def collect(self) -> Iterator[Metric]:
        """Yield a family for each known figure."""
        fog = self._fog()
        if fog is None:
            return
        for name, (text, of_node) in _OF_NODES.items():
            family = GaugeMetricFamily(name, text, labels=["worker", "site"])
            for node in fog.nodes:
                _add(family, [node.name, node.site], of_node(node))
            yield family
        for name, (text, of_link) in _OF_LINKS.items():
            family = GaugeMetricFamily(name, text, labels=["source", "target"])
            for link in fog.links:
                _add(family, [link.source, link.target], of_link(link))
            yield family
        for name, (text, of_site) in _OF_SITES.items():
            family = GaugeMetricFamily(name, text, labels=["site"])
            for source in fog.sources:
                _add(family, [source.site], of_site(source))
            yield family


def _add(family: GaugeMetricFamily, labels: list[str], value: float | None) -> None:
    if value is not None:
        family.add_metric(labels, value)
