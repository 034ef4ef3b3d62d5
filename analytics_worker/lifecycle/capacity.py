"""The capacity of the machine or container that a worker runs on, measured at each call."""

import os
from dataclasses import dataclass
from pathlib import Path

import psutil

from mistbow.control_groups import ROOT, cpu_groups, memory_groups

_MEGABYTE = 2**20


@dataclass(frozen=True, slots=True)
class NodeMemory:
    """The memory (MB) of a node: the limit, and the memory that no process uses now."""

    limit_mb: float
    free_mb: float


def cores(groups: Path = ROOT) -> float:
    """Return the number of cores that CPU affinity and the control groups permit.

    ``groups``: the folder of the control groups.
    """
    limits = [group.limit for group in cpu_groups(groups)]
    return min([float(len(os.sched_getaffinity(0))), *limits])


def node_memory(groups: Path = ROOT) -> NodeMemory:
    """Return the total and the free memory of the machine, or of the tightest control group.

    File cache that the kernel can reclaim is free. ``groups``: the folder of the control groups.
    """
    machine = psutil.virtual_memory()
    limited = memory_groups(groups)
    return NodeMemory(
        limit_mb=min([machine.total, *(group.limit for group in limited)]) / _MEGABYTE,
        free_mb=min([machine.available, *(group.free for group in limited)]) / _MEGABYTE,
    )


def own_memory_mb() -> float:
    """Return the memory (MB) that this process and its descendants use, without mapped files.

    Memory that several processes share is counted once.
    """
    own = psutil.Process()
    processes = [own, *own.children(recursive=True)]
    return sum(_memory_kb(process.pid) for process in processes) / 1024


def clock_mhz() -> float:
    """Return the clock speed of the processor (MHz); 0 if unknown."""
    try:
        speed = psutil.cpu_freq()
    except (OSError, NotImplementedError):
        return 0.0
    return 0.0 if speed is None else float(speed.max or speed.current)


def _memory_kb(pid: int) -> float:
    """Return the anonymous and the shared memory of a process; 0 if the process has just ended."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0.0
    sizes = {line.split(":")[0]: line.split()[1] for line in lines if line.endswith(" kB")}
    # A kernel before 5.3 reports the anonymous memory only as a whole.
    anonymous = sizes.get("Pss_Anon", sizes.get("Anonymous", 0))
    return float(anonymous) + float(sizes.get("Pss_Shmem", 0))
