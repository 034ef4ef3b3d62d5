"""The capacity of a container, read from control groups of version 1 and of version 2."""

import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from analytics_worker.lifecycle.capacity import cores, node_memory
from mistbow.control_groups import oom_kills

_MB = 2**20
_V2 = {
    "cpu_dot_max": "50000 100000\n",
    "memory_dot_max": f"{64 * _MB}\n",
    "memory_dot_current": f"{48 * _MB}\n",
    "memory_dot_stat": f"anon {16 * _MB}\nfile {32 * _MB}\ninactive_file {20 * _MB}\n"
    f"active_file {12 * _MB}\n",
    "memory_dot_events": "oom 3\noom_kill 2\n",
}
_V1 = {
    "cpu__cpu.cfs_quota_us": "50000\n",
    "cpu__cpu.cfs_period_us": "100000\n",
    "memory__memory.limit_in_bytes": f"{64 * _MB}\n",
    "memory__memory.usage_in_bytes": f"{48 * _MB}\n",
    "memory__memory.stat": f"inactive_file 1\ntotal_inactive_file {20 * _MB}\n"
    f"total_active_file {12 * _MB}\n",
    "memory__memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n",
}


def write(folder: Path, **files: str) -> Path:
    for name, text in files.items():
        path = folder / name.replace("__", "/").replace("_dot_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


@pytest.mark.parametrize("files", [_V2, _V1], ids=["v2", "v1"])
def test_capacity_is_within_the_limits_of_a_container(
    tmp_path: Path, files: dict[str, str]
) -> None:
    groups = write(tmp_path, **files)
    memory = node_memory(groups)
    assert cores(groups) == 0.5
    assert memory.limit_mb == 64
    assert memory.free_mb == 48  # file cache is free
    assert oom_kills(groups) == 2


@pytest.mark.parametrize("files", [_V2, _V1], ids=["v2", "v1"])
def test_changed_limits_are_read_again(tmp_path: Path, files: dict[str, str]) -> None:
    groups = write(tmp_path, **files)
    write(tmp_path, **{name: text.replace("50000", "25000") for name, text in files.items()})
    limit = f"{32 * _MB}\n"
    write(tmp_path, **{name: limit for name in files if "memory" in name and "max" in name})
    write(tmp_path, **{name: limit for name in files if "limit" in name})
    assert cores(groups) == 0.25
    assert (node_memory(groups).limit_mb, node_memory(groups).free_mb) == (32, 16)


@pytest.mark.parametrize(
    "files",
    [{}, {"cpu_dot_max": "max 100000\n", "memory_dot_max": "max\n"}],
    ids=["none", "unlimited"],
)
def test_capacity_without_limits_is_the_machine_s(tmp_path: Path, files: dict[str, str]) -> None:
    groups = write(tmp_path, **files)
    memory, machine = node_memory(groups), psutil.virtual_memory()
    assert cores(groups) >= 1
    assert memory.limit_mb == machine.total / _MB
    assert 0 < memory.free_mb < memory.limit_mb
    assert oom_kills(groups) is None


@pytest.mark.usefixtures("processes")
def test_own_memory_includes_what_the_process_allocates() -> None:
    # A fresh process: the memory that this process has used and freed could be reused, or returned.
    script = f"""
from analytics_worker.lifecycle.capacity import own_memory_mb
before = own_memory_mb()
block = bytearray(b"x" * {64 * _MB})
print(own_memory_mb() - before)
"""
    printed = subprocess.check_output([sys.executable, "-c", script])
    assert float(printed) == pytest.approx(64, rel=0.2)
