"""The seam for collectors, and which of them run."""

from collections.abc import Callable, Iterable
from importlib.metadata import entry_points
from typing import Protocol

from mistbow.client.agent_model import Point
from mistbow.monitoring.host import HostCollector
from mistbow.monitoring.json_source import JsonCollector
from mistbow.monitoring.processes import ProcessCollector
from mistbow.monitoring.settings import MonitorSettings


class Collector(Protocol):
    """Measures something; ``name`` tells which in logs and metrics."""

    @property
    def name(self) -> str: ...

    def collect(self, now_ms: int) -> Iterable[Point]:
        """Return what is measured now; it may block for a while, it runs in a thread of its own."""
        ...


CollectorFactory = Callable[[MonitorSettings], Collector]
"""What an entry point of the group ``mistbow.collectors`` names."""


def make_collectors(settings: MonitorSettings) -> list[Collector]:
    """Return our own collectors, one for each JSON source, and those of other packages."""
    factories: list[CollectorFactory] = [
        entry.load() for entry in entry_points(group="mistbow.collectors")
    ]
    sources = (source.strip() for source in settings.sources.split(";"))
    return [
        HostCollector(settings.node),
        ProcessCollector(settings.node),
        *(JsonCollector(source) for source in sources if source),
        *(factory(settings) for factory in factories),
    ]
