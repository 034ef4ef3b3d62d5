"""The collector of points of the processes with the greatest load."""

from collections.abc import Iterator
from dataclasses import dataclass

import psutil

from mistbow.client import Point
from monitoring_agent.collectors.metric import Metric

CPU = Metric("process.cpu", "%", "Share of one core used by all processes of a name")
MEMORY = Metric("process.memory", "bytes", "Resident memory of all processes of a name")
_MAX_NAMES = 10


@dataclass(frozen=True, slots=True, order=True)
class _Load:
    """The load that processes cause: CPU (% of one core) and memory (bytes).

    Loads are compared by CPU, and at equal CPU by memory.
    """

    cpu: float = 0.0
    memory: int = 0

    def __add__(self, other: "_Load") -> "_Load":
        return _Load(self.cpu + other.cpu, self.memory + other.memory)


class ProcessCollector:
    """Measures processes on the host ``node`` by name: the ten names with the greatest load."""

    name = "processes"

    def __init__(self, node: str) -> None:
        self._node = node
        # psutil compares with the last round: the first one covers no time.
        _loads()

    def collect(self, now_ms: int) -> Iterator[Point]:
        """Yield CPU and memory of each entity ``node/name``: the sums over processes of this name.

        An entity contains a name instead of a process id, because otherwise each new process would
        add series.
        """
        loads = _loads()
        for name in sorted(loads, key=lambda name: loads[name], reverse=True)[:_MAX_NAMES]:
            entity = f"{self._node}/{name}"
            yield CPU.point(entity, "process", loads[name].cpu, now_ms)
            yield MEMORY.point(entity, "process", loads[name].memory, now_ms)


def _loads() -> dict[str, _Load]:
    loads: dict[str, _Load] = {}
    for process in psutil.process_iter(["name", "cpu_percent", "memory_info"]):
        info = process.info
        if None in info.values():  # ended meanwhile, or without permission
            continue
        load = _Load(info["cpu_percent"], info["memory_info"].rss)
        loads[info["name"]] = loads.get(info["name"], _Load()) + load
    return loads
