"""The metrics of fragments' demands: estimated and measured, side by side."""

from collections.abc import Iterator

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from analytics_enabler.execution.demand_estimates import DemandEstimates
from analytics_enabler.scheduling.model.demands import FragmentCost

_MEGABYTE = 2**20
_SOURCES = {
    "estimated": "as the cost model estimated before it was measured",
    "measured": "over the last minute",
}


class DemandCollector(Collector):
    """Collects the demands of all planned fragments at each scrape."""

    def __init__(self, estimates: DemandEstimates) -> None:
        self._estimates = estimates

    def describe(self) -> list[Metric]:
        """Return no names, so that a process can have several enablers."""
        return []

    def collect(self) -> Iterator[Metric]:
        """Yield a family for each figure and source, and the error of the estimates."""
        families = {source: _families(source) for source in _SOURCES}
        for fragment in self._estimates.fragments():
            first = self._estimates.first_estimate(fragment)
            costs = {"estimated": first, "measured": self._estimates.measured(fragment)}
            for source, cost in costs.items():
                for family, value in zip(families[source], _values(cost), strict=True):
                    if value is not None:
                        family.add_metric([fragment.id], value)
        for each in families.values():
            yield from each
        errors = GaugeMetricFamily(
            "mistbow_cost_model_error_ratio",
            "Median relative error of the estimates of the fragments that were measured since.",
            labels=["resource"],
        )
        for resource, error in self._estimates.median_errors.items():
            errors.add_metric([resource], error)
        yield errors


def _families(source: str) -> list[GaugeMetricFamily]:
    figures = {
        "mistbow_fragment_cores": "CPU seconds per second of a fragment",
        "mistbow_fragment_memory_bytes": "Memory of a fragment",
        "mistbow_fragment_rows_read_per_second": "Points or panes that a fragment reads",
        "mistbow_fragment_written_bytes_per_second": "Bytes that a fragment writes",
    }
    return [
        GaugeMetricFamily(f"{name}_{source}", f"{what}, {_SOURCES[source]}.", labels=["id"])
        for name, what in figures.items()
    ]


def _values(cost: FragmentCost | None) -> list[float | None]:
    if cost is None:
        return [None] * 4
    memory = None if cost.memory_mb is None else cost.memory_mb * _MEGABYTE
    return [cost.cores, memory, cost.points_per_s, cost.bytes_per_s]
