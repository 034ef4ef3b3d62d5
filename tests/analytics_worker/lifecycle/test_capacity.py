"""The capacity of a container, read from control groups of version 1 and of version 2."""

from pathlib import Path

import psutil
import pytest

from analytics_worker.lifecycle.capacity import cores, memory_mb


def write(folder: Path, **files: str) -> Path:
    for name, text in files.items():
        path = folder / name.replace("__", "/").replace("_dot_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


@pytest.mark.parametrize(
    "files",
    [
        {"cpu_dot_max": "50000 100000\n", "memory_dot_max": "536870912\n"},
        {
            "cpu__cpu.cfs_quota_us": "50000\n",
            "cpu__cpu.cfs_period_us": "100000\n",
            "memory__memory.limit_in_bytes": "536870912\n",
        },
    ],
    ids=["v2", "v1"],
)
def test_capacity_is_within_the_limits_of_a_container(
    tmp_path: Path, files: dict[str, str]
) -> None:
    groups = write(tmp_path, **files)
    assert cores(groups) == 0.5
    assert memory_mb(groups) == 512


@pytest.mark.parametrize(
    "files",
    [{}, {"cpu_dot_max": "max 100000\n", "memory_dot_max": "max\n"}],
    ids=["none", "unlimited"],
)
def test_capacity_without_limits_is_the_machine_s(tmp_path: Path, files: dict[str, str]) -> None:
    groups = write(tmp_path, **files)
    assert cores(groups) >= 1
    assert memory_mb(groups) == psutil.virtual_memory().total / 2**20
