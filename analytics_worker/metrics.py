"""The metrics of a worker's fragments, computed from the status of the fragments at each scrape."""

from collections.abc import Callable, Iterable, Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from analytics.plan.status import FragmentStatus

_MEGABYTE = 2**20


class FragmentCollector(Collector):
    """Collects metrics from the status of every fragment, which ``fragments`` returns."""

    def __init__(self, fragments: Callable[[], Iterable[FragmentStatus]]) -> None:
        self._fragments = fragments

    def collect(self) -> Iterator[Metric]:
        """Yield a metric family for each metric, with one sample for each fragment."""
        running = GaugeMetricFamily(
            "mistbow_fragment_running", "1 if the fragment runs.", labels=["id"]
        )
        frontier = GaugeMetricFamily(
            "mistbow_fragment_frontier_seconds",
            "The time, since the epoch, up to which results are complete.",
            labels=["id"],
        )
        batches = CounterMetricFamily("mistbow_fragment_batches", "Micro-batches.", labels=["id"])
        dropped = CounterMetricFamily(
            "mistbow_fragment_rows_dropped", "Rows that Spark's watermark dropped.", labels=["id"]
        )
        lag = GaugeMetricFamily(
            "mistbow_fragment_lag_seconds",
            "The time for which the oldest missing result has been due.",
            labels=["id"],
        )
        shed = GaugeMetricFamily(
            "mistbow_fragment_shed",
            "1 if the fragment is shed until the worker has capacity.",
            labels=["id"],
        )
        cpu = CounterMetricFamily(
            "mistbow_fragment_cpu_seconds", "CPU time that the fragment took.", labels=["id"]
        )
        read = CounterMetricFamily(
            "mistbow_fragment_rows_read", "Points or panes that the fragment read.", labels=["id"]
        )
        written = CounterMetricFamily(
            "mistbow_fragment_written_bytes", "Bytes that the fragment wrote.", labels=["id"]
        )
        memory = GaugeMetricFamily(
            "mistbow_fragment_memory_bytes",
            "The fragment's part of the memory that the worker uses for fragments.",
            labels=["id"],
        )
        checked = CounterMetricFamily(
            "mistbow_fragment_checked_points",
            "Points of the fragment whose quality was checked.",
            labels=["id"],
        )
        share = GaugeMetricFamily(
            "mistbow_fragment_checked_ratio",
            "The share of the fragment's points whose quality is to be checked.",
            labels=["id"],
        )
        check_cpu = CounterMetricFamily(
            "mistbow_fragment_check_cpu_seconds",
            "CPU time of the checks of the fragment's points.",
            labels=["id"],
        )
        for status in self._fragments():
            running.add_metric([status.id], float(status.state == "running"))
            frontier.add_metric([status.id], status.frontier / 1000)
            batches.add_metric([status.id], status.batches)
            dropped.add_metric([status.id], status.rows_dropped)
            lag.add_metric([status.id], status.lag_ms / 1000)
            shed.add_metric([status.id], float(status.shed_since is not None))
            cpu.add_metric([status.id], status.cpu_s)
            read.add_metric([status.id], status.rows_read)
            written.add_metric([status.id], status.bytes_written)
            memory.add_metric([status.id], status.memory_mb * _MEGABYTE)
            checked.add_metric([status.id], status.points_checked)
            share.add_metric([status.id], status.checked)
            check_cpu.add_metric([status.id], status.check_cpu_s)
        yield from (running, frontier, batches, dropped, lag, shed, cpu, read, written, memory)
        yield from (checked, share, check_cpu)
