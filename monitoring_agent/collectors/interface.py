"""The protocol of collectors, and the function that makes the collectors of an agent."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from importlib.metadata import entry_points
from typing import Protocol

from mistbow.client import Point
from monitoring_agent.collectors.host import HostCollector
from monitoring_agent.collectors.json_source import JsonCollector
from monitoring_agent.collectors.processes import ProcessCollector
from monitoring_agent.collectors.source_reader import source_name
from monitoring_agent.collectors.usage import usage_of
from monitoring_agent.settings import MonitorSettings


class Collector(Protocol):
    """A source of points; ``name`` identifies the source in logs and metrics."""

    @property
    def name(self) -> str: ...

    def collect(self, now_ms: int) -> Iterable[Point]:
        """Measure, and return the points; ``now_ms``: the present time (ms since the epoch).

        This method may block, since it is called in a thread.
        """
        ...


CollectorFactory = Callable[[MonitorSettings], Collector]
"""The type of the entry points of the group ``mistbow.collectors``."""


def make_collectors(settings: MonitorSettings) -> list[Collector]:
    """Return the built-in collectors, and the collectors that other packages declare.

    The built-in collectors include a collector for each JSON source in the settings.
    """
    factories: list[CollectorFactory] = [
        entry.load() for entry in entry_points(group="mistbow.collectors")
    ]
    sources = [source.strip() for source in settings.sources.split(";")]
    return [
        HostCollector(settings.node, usage_of(settings.monitor_scope)),
        ProcessCollector(settings.node),
        *_json_collectors([source for source in sources if source]),
        *(factory(settings) for factory in factories),
    ]


def _json_collectors(sources: Sequence[str]) -> list[JsonCollector]:
    """Return a collector for each source; equal names get numbers: ``exec:curl``, ``exec:curl#2``.

    Metrics and adaptive sampling distinguish collectors by their names.
    """
    seen: Counter[str] = Counter()
    collectors = []
    for source in sources:
        name = source_name(source)
        seen[name] += 1
        collectors.append(JsonCollector(source, f"{name}#{seen[name]}" if seen[name] > 1 else name))
    return collectors
