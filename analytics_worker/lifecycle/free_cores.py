"""The cores that other programs leave to the fragments of a worker."""

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import psutil

from analytics_worker.lifecycle.cpu_accounting import process_tree_cpu_s
from mistbow.control_groups import cpu_groups

PERIOD_S = 5.0
"""The time (s) between two readings."""

SMOOTHING_S = 60.0
"""The time constant (s) of the smoothing."""

MIN_SHARE = 0.5
"""The share of the cores that are free at any load of other programs.

The kernel divides a busy core fairly among programs, so the worker gets its share.
"""

_MIN_STEP = 0.1
_STEP_SHARE = 0.1
"""The smallest change that is reported: in cores, and as a share of the cores."""


@dataclass(frozen=True, slots=True)
class CpuReading:
    """CPU times (s) up to the time ``at`` (s).

    ``busy``: of all programs, on the cores that this process may use. ``own``: of this process and
    its descendants. ``groups``: of the control groups, by (folder, limit in cores).
    """

    at: float
    busy: float
    own: float
    groups: Mapping[tuple[Path, float], float]


def cpu_reading() -> CpuReading:
    """Read the CPU times now."""
    permitted, times = os.sched_getaffinity(0), psutil.cpu_times(percpu=True)
    busy = sum(_busy_s(each) for number, each in enumerate(times) if number in permitted)
    used = {(each.folder, each.limit): each.used_s for each in cpu_groups()}
    known = {key: used_s for key, used_s in used.items() if used_s is not None}
    return CpuReading(time.monotonic(), busy, process_tree_cpu_s(), known)


def _busy_s(times: object) -> float:
    # The time of guests is part of ``user``; stolen time is not for this machine's programs.
    names = ("user", "nice", "system", "irq", "softirq", "steal")
    return float(sum(getattr(times, name, 0.0) for name in names))


class FreeCores:
    """Measures the free cores, with smoothing; at first, all cores are free.

    So the load of a node that starts, when all services start, moves no fragments.
    """

    def __init__(self, read: Callable[[], CpuReading] = cpu_reading) -> None:
        self._read = read
        self._last = read()
        self._others = 0.0
        self._group_others: dict[tuple[Path, float], float] = {}
        self._reported: tuple[float, float] | None = None

    def measure(self, cores: float) -> float:
        """Return how many of the ``cores`` are free.

        Reads the CPU times if the last reading is old, or if the number of cores has changed: a
        changed limit of a control group has readings of its own.
        """
        is_changed = self._reported is not None and self._reported[1] != cores
        if is_changed or time.monotonic() - self._last.at >= PERIOD_S:
            self.update()
        left = _permitted_cores() - self._others
        for (_, limit), others in self._group_others.items():
            left = min(left, limit - others)
        free = min(max(left, MIN_SHARE * cores), cores)
        return self._stable(round(free, 2), cores)

    def update(self) -> None:
        """Read the CPU times now."""
        last, self._last = self._last, self._read()
        seconds = self._last.at - last.at
        if seconds <= 0:
            return
        own = self._last.own - last.own
        weight = min(seconds / SMOOTHING_S, 1.0)

        def smoothed(former: float, used_s: float) -> float:
            others = max(used_s - own, 0.0) / seconds
            return former + weight * (others - former)

        self._others = smoothed(self._others, self._last.busy - last.busy)
        self._group_others = {
            key: smoothed(self._group_others.get(key, 0.0), used_s - last.groups[key])
            for key, used_s in self._last.groups.items()
            if key in last.groups
        }

    def _stable(self, free: float, cores: float) -> float:
        """Return the former figure if the new one differs little from it."""
        step = max(_MIN_STEP, _STEP_SHARE * cores)
        former = self._reported
        is_idle = free > cores - step / 2
        if former is None or former[1] != cores or abs(free - former[0]) >= step or is_idle:
            self._reported = former = (cores if is_idle else free), cores
        return former[0]


def _permitted_cores() -> int:
    return len(os.sched_getaffinity(0))
