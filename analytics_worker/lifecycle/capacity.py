"""The capacity of the machine or container that a worker runs on."""

import os
from pathlib import Path

import psutil

_MEGABYTE = 2**20
_UNITS = {"k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}
_GROUPS = Path("/sys/fs/cgroup")


def cores(groups: Path = _GROUPS) -> float:
    """Return the number of cores that CPU affinity and the control group let this process use.

    ``groups``: the folder of the control groups.
    """
    usable = float(len(os.sched_getaffinity(0)))
    limit = _cpu_limit(groups)
    return usable if limit is None else min(usable, limit)


def memory_mb(groups: Path = _GROUPS) -> float:
    """Return the memory (MB) of the machine, or the limit of the control group if lower.

    ``groups``: the folder of the control groups.
    """
    whole = psutil.virtual_memory().total
    limit = _number(groups / "memory.max") or _number(groups / "memory" / "memory.limit_in_bytes")
    return (whole if limit is None else min(whole, limit)) / _MEGABYTE


def clock_mhz() -> float:
    """Return the clock speed of the processor (MHz); 0 if unknown."""
    try:
        speed = psutil.cpu_freq()
    except (OSError, NotImplementedError):
        return 0.0
    return 0.0 if speed is None else float(speed.max or speed.current)


def heap_mb(size: str) -> float:
    """Return the number of megabytes that a size in Java's notation means.

    >>> heap_mb("768m"), heap_mb("1g")
    (768.0, 1024.0)
    """
    number, unit = size[:-1], size[-1:].lower()
    if unit in _UNITS and number.isdigit():
        return int(number) * _UNITS[unit] / _MEGABYTE
    return int(size) / _MEGABYTE


def _cpu_limit(groups: Path) -> float | None:
    try:
        quota, period = (groups / "cpu.max").read_text().split()
        return None if quota == "max" else int(quota) / int(period)
    except (OSError, ValueError):
        pass
    quota_us = _number(groups / "cpu" / "cpu.cfs_quota_us")
    period_us = _number(groups / "cpu" / "cpu.cfs_period_us")
    return quota_us / period_us if quota_us and period_us else None


def _number(path: Path) -> int | None:
    """Return the positive number in a file; None if the file is missing or has no such number."""
    try:
        number = int(path.read_text())
    except (OSError, ValueError):
        return None
    return number if number > 0 else None
