"""The processes that ask most of the host."""

from collections.abc import Iterator
from dataclasses import dataclass

import psutil

from mistbow.client.agent_model import Point
from mistbow.monitoring.metric import Metric

CPU = Metric("process.cpu", "%", "Share of one core that all processes of a name use")
MEMORY = Metric("process.memory", "bytes", "Memory that all processes of a name keep resident")
_HEAVIEST = 10


@dataclass(frozen=True, slots=True, order=True)
class _Load:
    """What processes ask of the host; compared by CPU, then by memory."""

    cpu: float = 0.0
    memory: int = 0

    def __add__(self, other: "_Load") -> "_Load":
        return _Load(self.cpu + other.cpu, self.memory + other.memory)


class ProcessCollector:
    """Measures what runs on the host ``node`` by its ten heaviest names: by CPU, then by memory."""

    name = "processes"

    def __init__(self, node: str) -> None:
        self._node = node
        # psutil keeps the processes of the last round: the first answer covers no time yet.
        _loads()

    def collect(self, now_ms: int) -> Iterator[Point]:
        """Yield CPU and memory of each name, the sum of all its processes, as ``node/name``.

        A process id would make a new series of each process that ever ran.
        """
        loads = _loads()
        for name in sorted(loads, key=lambda name: loads[name], reverse=True)[:_HEAVIEST]:
            entity = f"{self._node}/{name}"
            yield CPU.point(entity, "process", loads[name].cpu, now_ms)
            yield MEMORY.point(entity, "process", loads[name].memory, now_ms)


def _loads() -> dict[str, _Load]:
    loads: dict[str, _Load] = {}
    for process in psutil.process_iter(["name", "cpu_percent", "memory_info"]):
        info = process.info
        if None in info.values():  # gone meanwhile, or not ours to look at
            continue
        load = _Load(info["cpu_percent"], info["memory_info"].rss)
        loads[info["name"]] = loads.get(info["name"], _Load()) + load
    return loads
