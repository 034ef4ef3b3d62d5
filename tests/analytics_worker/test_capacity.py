"""What a container gives a worker, by both kinds of control groups."""

from pathlib import Path

import psutil
import pytest

from analytics_worker.capacity import cores, memory_mb


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
def test_a_container_s_limits_count(tmp_path: Path, files: dict[str, str]) -> None:
    groups = write(tmp_path, **files)
    assert cores(groups) == 0.5
    assert memory_mb(groups) == 512


@pytest.mark.parametrize(
    "files",
    [{}, {"cpu_dot_max": "max 100000\n", "memory_dot_max": "max\n"}],
    ids=["none", "unlimited"],
)
def test_without_limits_there_is_the_whole_machine(tmp_path: Path, files: dict[str, str]) -> None:
    groups = write(tmp_path, **files)
    assert cores(groups) >= 1
    assert memory_mb(groups) == psutil.virtual_memory().total / 2**20
