"""The control groups of this process: their limits, the memory they use, and kills by the kernel.

The limits may change while the process runs, so each function reads the files again. Both versions
of control groups are read (https://docs.kernel.org/admin-guide/cgroup-v2.html, cgroup-v1/).
"""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

ROOT = Path("/sys/fs/cgroup")
_MEMBERSHIP = Path("/proc/self/cgroup")


@dataclass(frozen=True, slots=True)
class MemoryGroup:
    """The memory of a control group.

    ``limit``: the limit (bytes); infinite: none. ``used``: the bytes that are used, without the
    file cache that the kernel can reclaim.
    """

    limit: float
    used: int

    @property
    def free(self) -> float:
        """The bytes that are free; negative if the limit was lowered below the use."""
        return self.limit - self.used


@dataclass(frozen=True, slots=True)
class CpuGroup:
    """The CPU of a control group.

    ``limit``: the limit (cores); infinite: none. ``used_s``: the CPU time (s) of its programs so
    far; None: unknown.
    """

    folder: Path
    limit: float
    used_s: float | None


def memory_groups(root: Path = ROOT) -> list[MemoryGroup]:
    """Return the memory of the control group of this process and of all groups above it.

    The innermost group is the first. ``root``: the folder of all control groups.
    """
    groups = []
    for folder in _folders(root, "memory"):
        limit = _first_number(folder / "memory.max", folder / "memory.limit_in_bytes")
        used = _first_number(folder / "memory.current", folder / "memory.usage_in_bytes")
        if limit is not None or used is not None:
            free_cache = min(_reclaimable(folder), used or 0)
            groups.append(MemoryGroup(limit or math.inf, (used or 0) - free_cache))
    return groups


def cpu_groups(root: Path = ROOT) -> list[CpuGroup]:
    """Return the CPU of the control group of this process and of all groups above it.

    The innermost group is the first.
    """
    groups = []
    for folder in _folders(root, "cpu"):
        limit, used_s = _cpu_limit(folder), _used_s(folder, root)
        if limit is not None or used_s is not None:
            groups.append(CpuGroup(folder, limit or math.inf, used_s))
    return groups


def is_in_container(root: Path = ROOT) -> bool:
    """Return whether the outermost control group that this process sees is a container's."""
    if (root / "cgroup.type").exists():  # version 2: only the group of the machine lacks this file
        return True
    # Version 1: the path is that on the machine, and the container sees only its own group.
    paths = dict(_memberships())
    return any(
        (root / controller).is_dir()
        and not (root / controller / paths.get(controller, "/").lstrip("/")).is_dir()
        for controller in ("cpu", "memory")
    )


def oom_kills(root: Path = ROOT) -> int | None:
    """Return how many processes of the control group the kernel has killed for lack of memory.

    None: no control group has this number.
    """
    for folder in _folders(root, "memory"):
        events = _numbers(folder / "memory.events") or _numbers(folder / "memory.oom_control")
        if "oom_kill" in events:
            return events["oom_kill"]
    return None


def _folders(root: Path, controller: str) -> Iterator[Path]:
    """Yield the folders of a controller for this process, the innermost first.

    In a container, the path can be the one on the host, while the root is the container's group.
    """
    paths = dict(_memberships())
    for base, path in ((root / controller, paths.get(controller)), (root, paths.get(""))):
        inner = PurePosixPath((path or "/").lstrip("/"))
        for relative in (inner, *inner.parents):
            folder = base / relative
            if folder.is_dir():
                yield folder
            if relative == PurePosixPath():
                break


def _memberships() -> Iterator[tuple[str, str]]:
    """Yield (controller, path) for each control group of this process; version 2 has no name."""
    try:
        lines = _MEMBERSHIP.read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        for controller in controllers.split(","):
            yield controller, path


def _reclaimable(folder: Path) -> int:
    """Return the bytes of a group's file cache."""
    numbers = _numbers(folder / "memory.stat")
    if "total_inactive_file" in numbers:  # version 1, with the groups below
        return numbers["total_inactive_file"] + numbers.get("total_active_file", 0)
    names = ("inactive_file", "active_file", "slab_reclaimable")
    return sum(numbers.get(name, 0) for name in names)


def _cpu_limit(folder: Path) -> float | None:
    try:
        quota, period = (folder / "cpu.max").read_text().split()
        return None if quota == "max" else int(quota) / int(period)
    except (OSError, ValueError):
        pass
    quota_us = _first_number(folder / "cpu.cfs_quota_us")
    period_us = _first_number(folder / "cpu.cfs_period_us")
    return quota_us / period_us if quota_us and period_us else None


def _used_s(folder: Path, root: Path) -> float | None:
    used_us = _numbers(folder / "cpu.stat").get("usage_usec")
    if used_us is not None:
        return used_us / 1e6
    # Version 1 can have a hierarchy of its own for the used time.
    times = folder
    if folder.is_relative_to(root / "cpu"):
        times = root / "cpuacct" / folder.relative_to(root / "cpu")
    used_ns = _first_number(folder / "cpuacct.usage", times / "cpuacct.usage")
    return None if used_ns is None else used_ns / 1e9


def _first_number(*paths: Path) -> int | None:
    """Return the positive number in the first file that has one; None: no file has one."""
    for path in paths:
        try:
            number = int(path.read_text())
        except (OSError, ValueError):
            continue
        if number > 0:
            return number
    return None


def _numbers(path: Path) -> dict[str, int]:
    """Return the lines ``NAME NUMBER`` of a file; empty if the file is missing."""
    try:
        lines: Iterable[str] = path.read_text().splitlines()
    except OSError:
        return {}
    pairs = (line.split() for line in lines)
    return {pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2 and pair[1].isdigit()}
