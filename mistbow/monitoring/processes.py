"""The processes that ask most of the host."""

from collections.abc import Iterator
from typing import Any

import psutil

from mistbow.client.agent_model import Point
from mistbow.monitoring.metric import Metric

CPU = Metric("process.cpu", "%", "Share of one core that a process uses")
MEMORY = Metric("process.memory", "bytes", "Memory that a process keeps resident")
_HEAVIEST = 10


class ProcessCollector:
    """Measures the ten heaviest processes of the host ``node``: by CPU, then by memory."""

    name = "processes"

    def __init__(self, node: str) -> None:
        self._node = node
        # psutil keeps the processes of the last round: the first answer covers no time yet.
        _running()

    def collect(self, now_ms: int) -> Iterator[Point]:
        """Yield CPU and memory of each; its entity is ``node/pid-name``."""
        for process in sorted(_running(), key=_weight, reverse=True)[:_HEAVIEST]:
            entity = f"{self._node}/{process['pid']}-{process['name']}"
            yield CPU.point(entity, "process", process["cpu_percent"], now_ms)
            yield MEMORY.point(entity, "process", process["memory_info"].rss, now_ms)


def _running() -> list[dict[str, Any]]:
    wanted = ["pid", "name", "cpu_percent", "memory_info"]
    found = [process.info for process in psutil.process_iter(wanted)]
    return [process for process in found if None not in process.values()]


def _weight(process: dict[str, Any]) -> tuple[float, int]:
    return process["cpu_percent"], process["memory_info"].rss
