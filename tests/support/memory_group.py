"""A control group with limits of memory and CPU, as a container has; for root on Linux."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import pytest

from tests.support.conditions import eventually

_ROOT = Path("/sys/fs/cgroup")
_V1 = _ROOT / "memory"
_JOIN = 'while [ "$1" != -- ]; do echo $$ > "$1"; shift; done; shift; exec "$@"'
_PERIOD_US = 100_000


def _parent() -> Path | None:
    """Return the folder in which groups can be made; None: this machine permits none."""
    if os.geteuid() != 0:
        return None
    if (_V1 / "memory.limit_in_bytes").exists() or (_V1 / "memory.usage_in_bytes").exists():
        return _V1
    controllers = _ROOT / "cgroup.subtree_control"
    return _ROOT if controllers.exists() and "memory" in controllers.read_text() else None


def _cpu_parents() -> list[Path]:
    """Return the folders in which groups with a CPU limit and with their CPU time can be made."""
    if _parent() == _ROOT:
        controllers = (_ROOT / "cgroup.subtree_control").read_text().split()
        return [_ROOT] if "cpu" in controllers else []
    # One folder if a link leads from one name to the other.
    folders = {(_ROOT / name).resolve() for name in ("cpu", "cpuacct") if (_ROOT / name).is_dir()}
    return sorted(folders) if _parent() == _V1 else []


needs_memory_groups = pytest.mark.skipif(
    _parent() is None and "MISTBOW_NEEDS_DOCKER" not in os.environ,
    reason="needs root, and the control groups of the kernel with the memory controller",
)


needs_cpu_groups = pytest.mark.skipif(
    not _cpu_parents() and "MISTBOW_NEEDS_DOCKER" not in os.environ,
    reason="needs root, and the control groups of the kernel with the CPU controller",
)


@dataclass(frozen=True)
class MemoryGroup:
    """A control group; ``folder``: the folder of the group.

    ``cpu_folders``: the further folders of the group in version 1, if it has a CPU limit.
    """

    folder: Path
    cpu_folders: tuple[Path, ...] = ()

    @property
    def prefix(self) -> Sequence[str]:
        """The command that runs its arguments in the group."""
        files = [str(folder / "cgroup.procs") for folder in (self.folder, *self.cpu_folders)]
        return ("sh", "-c", _JOIN, "sh", *files, "--")

    @property
    def used_mb(self) -> float:
        """The memory (MB) in use."""
        return self._number("memory.current", "memory.usage_in_bytes") / 2**20

    @property
    def working_set_mb(self) -> float:
        """The memory (MB) in use, without the file cache that the kernel reclaims first."""
        lines = (line.split() for line in (self.folder / "memory.stat").read_text().splitlines())
        sizes = {line[0]: int(line[1]) for line in lines}
        inactive = sizes.get("total_inactive_file", sizes.get("inactive_file", 0))
        return self.used_mb - inactive / 2**20

    @property
    def oom_kills(self) -> int:
        """How many processes of the group the kernel has killed for memory."""
        for name in ("memory.events", "memory.oom_control"):
            if (self.folder / name).exists():
                lines = (line.split() for line in (self.folder / name).read_text().splitlines())
                return next(int(line[1]) for line in lines if line[0] == "oom_kill")
        raise AssertionError("the group has no count of kills")

    def limit(self, megabytes: int) -> None:
        """Change the memory limit."""
        for name in ("memory.max", "memory.limit_in_bytes"):
            if (self.folder / name).exists():
                (self.folder / name).write_text(str(megabytes * 2**20))

    def limit_cpu(self, cores: float) -> None:
        """Change the CPU limit."""
        quota_us = round(cores * _PERIOD_US)
        for folder in (self.folder, *self.cpu_folders):
            if (folder / "cpu.max").exists():
                (folder / "cpu.max").write_text(f"{quota_us} {_PERIOD_US}")
            if (folder / "cpu.cfs_quota_us").exists():
                (folder / "cpu.cfs_quota_us").write_text(str(quota_us))

    def _number(self, *names: str) -> int:
        found = next(self.folder / name for name in names if (self.folder / name).exists())
        return int(found.read_text())


def group_of(pid: int) -> MemoryGroup:
    """Return the control group of a process that runs."""
    lines = [line.split(":", 2) for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines()]
    own = {controllers: path.lstrip("/") for _, controllers, path in lines}
    if "memory" in own:
        return MemoryGroup(_V1 / own["memory"])
    return MemoryGroup(_ROOT / own[""])


@contextmanager
def memory_group(megabytes: int, cores: float | None = None) -> Iterator[MemoryGroup]:
    """Make a group with a memory limit; remove it when its processes have ended.

    ``cores``: the CPU limit; None: none.
    """
    parent = _parent()
    assert parent is not None, "this machine permits no control groups"
    name = f"mistbow-test-{uuid4().hex[:8]}"
    cpu_parents = [] if cores is None else _cpu_parents()
    folders = tuple(each / name for each in cpu_parents if each != parent)
    group = MemoryGroup(parent / name, folders)
    for folder in (group.folder, *folders):
        folder.mkdir()
    try:
        group.limit(megabytes)
        if cores is not None:
            group.limit_cpu(cores)
        yield group
    finally:
        processes = group.folder / "cgroup.procs"
        eventually(lambda: not processes.read_text(), what="the processes of the group have ended")
        for folder in (group.folder, *folders):
            folder.rmdir()
