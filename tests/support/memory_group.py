"""A control group with a memory limit, as a container has; for root on Linux."""

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
_JOIN = 'echo $$ > "$0"; exec "$@"'


def _parent() -> Path | None:
    """Return the folder in which groups can be made; None: this machine permits none."""
    if os.geteuid() != 0:
        return None
    if (_V1 / "memory.limit_in_bytes").exists() or (_V1 / "memory.usage_in_bytes").exists():
        return _V1
    controllers = _ROOT / "cgroup.subtree_control"
    return _ROOT if controllers.exists() and "memory" in controllers.read_text() else None


needs_memory_groups = pytest.mark.skipif(
    _parent() is None and "MISTBOW_NEEDS_DOCKER" not in os.environ,
    reason="needs root, and the control groups of the kernel with the memory controller",
)


@dataclass(frozen=True)
class MemoryGroup:
    """A control group; ``folder``: the folder of the group."""

    folder: Path

    @property
    def prefix(self) -> Sequence[str]:
        """The command that runs its arguments in the group."""
        return ("sh", "-c", _JOIN, str(self.folder / "cgroup.procs"))

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
def memory_group(megabytes: int) -> Iterator[MemoryGroup]:
    """Make a group with a limit; remove it when its processes have ended."""
    parent = _parent()
    assert parent is not None, "this machine permits no control groups"
    group = MemoryGroup(parent / f"mistbow-test-{uuid4().hex[:8]}")
    group.folder.mkdir()
    try:
        group.limit(megabytes)
        yield group
    finally:
        processes = group.folder / "cgroup.procs"
        eventually(lambda: not processes.read_text(), what="the processes of the group have ended")
        group.folder.rmdir()
