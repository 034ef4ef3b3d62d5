"""The use of CPU and memory: of the machine, or of the control group of a container."""

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import psutil

from mistbow.control_groups import ROOT, CpuGroup, cpu_groups, is_in_container, memory_groups
from monitoring_agent.settings import MonitorScope


@dataclass(frozen=True, slots=True)
class MemoryUsage:
    """The memory in use (% and bytes), and the bytes that are available without swapping."""

    percent: float
    used: int
    available: float


class Usage(Protocol):
    """The use of CPU and memory that an agent measures: of the machine, or of a container."""

    def cpu_percent(self) -> float | None:
        """Return the share (%) of the CPU in use since the last call; None: unknown."""
        ...

    def memory(self) -> MemoryUsage:
        """Return the memory in use now."""
        ...


class MachineUsage:
    """The use of the machine, as psutil reads it."""

    def __init__(self) -> None:
        psutil.cpu_percent()  # The first call covers no time, so its result is useless.

    def cpu_percent(self) -> float | None:
        """Return the share (%) of all cores in use since the last call."""
        return psutil.cpu_percent()

    def memory(self) -> MemoryUsage:
        """Return the memory in use now."""
        memory = psutil.virtual_memory()
        return MemoryUsage(memory.percent, memory.used, memory.available)


class ContainerUsage:
    """The use of the control group of this process, in relation to its limits.

    The group is the one with the lowest limit among the group of this process and the groups above
    this group. Without a limit, the figures are in relation to the machine. Figures that no control
    group measures are figures of the machine. ``root``: the folder of all control groups.
    ``clock``: seconds that only increase.
    """

    def __init__(self, root: Path = ROOT, clock: Callable[[], float] = time.monotonic) -> None:
        self._root = root
        self._clock = clock
        self._machine = MachineUsage()
        self._last = (clock(), self._cpu_group())

    def cpu_percent(self) -> float | None:
        """Return the share (%) of the CPU in use since the last call.

        None at the first call after another group has become the one with the lowest limit.
        """
        (last_at, last), (now, group) = self._last, (self._clock(), self._cpu_group())
        self._last = (now, group)
        if group is None or group.used_s is None:
            return self._machine.cpu_percent()
        if last is None or last.used_s is None or last.folder != group.folder or now <= last_at:
            return None
        cores = min(group.limit, len(os.sched_getaffinity(0)))
        percent = 100 * (group.used_s - last.used_s) / (now - last_at) / cores
        return min(max(percent, 0.0), 100.0)  # The limit may have changed since the last call.

    def memory(self) -> MemoryUsage:
        """Return the memory in use now, without the file cache that the kernel can reclaim."""
        group = min(memory_groups(self._root), key=lambda each: each.limit, default=None)
        if group is None:
            return self._machine.memory()
        machine = psutil.virtual_memory()
        limit = min(group.limit, machine.total)
        return MemoryUsage(
            percent=min(100 * group.used / limit, 100.0),
            used=group.used,
            available=min(max(limit - group.used, 0), machine.available),
        )

    def _cpu_group(self) -> CpuGroup | None:
        return min(cpu_groups(self._root), key=lambda each: each.limit, default=None)


def usage_of(scope: MonitorScope, root: Path = ROOT) -> Usage:
    """Return the use that an agent with this setting measures."""
    if scope == "container" or (scope == "auto" and is_in_container(root)):
        return ContainerUsage(root)
    return MachineUsage()
