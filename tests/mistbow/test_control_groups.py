"""The control groups of this process, in files of version 1 and of version 2."""

import math
from pathlib import Path

import pytest

from mistbow import control_groups
from mistbow.control_groups import cpu_groups, is_in_container, memory_groups

QUOTA = {"cpu/cpu.cfs_quota_us": "50000\n", "cpu/cpu.cfs_period_us": "100000\n"}
V1 = "4:memory:/docker/c1\n2:cpu,cpuacct:/docker/c1\n0::/\n"
V2 = "0::/\n"
UNIT = "system.slice/mistbow.service"


def write(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


@pytest.fixture
def member_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file with the groups of this process."""
    file = tmp_path / "membership"
    monkeypatch.setattr(control_groups, "_MEMBERSHIP", file)
    return file


@pytest.mark.parametrize(
    "files",
    [
        {"cpu.max": "50000 100000\n", "cpu.stat": "usage_usec 1500000\nuser_usec 1\n"},
        {**QUOTA, "cpu/cpuacct.usage": "1500000000\n"},
        {**QUOTA, "cpuacct/cpuacct.usage": "1500000000\n"},
    ],
    ids=["v2", "v1", "v1 with separate times"],
)
def test_control_group_has_its_limit_and_its_use(tmp_path: Path, files: dict[str, str]) -> None:
    [group] = cpu_groups(write(tmp_path, files))
    assert (group.limit, group.used_s) == (0.5, 1.5)


def test_group_without_limits_has_its_use(tmp_path: Path) -> None:
    files = {"cpu.max": "max 100000\n", "cpu.stat": "usage_usec 1500000\n"}
    memory = {"memory.max": "max\n", "memory.current": "4096\n"}
    root = write(tmp_path, {**files, **memory})
    assert [(each.limit, each.used_s) for each in cpu_groups(root)] == [(math.inf, 1.5)]
    assert [(each.limit, each.used) for each in memory_groups(root)] == [(math.inf, 4096)]


@pytest.mark.parametrize(
    ("membership", "files", "expected"),
    [
        (V2, {"cgroup.type": "domain\n"}, True),
        (V2, {"cgroup.controllers": "cpu memory\n"}, False),
        (f"0::/{UNIT}\n", {f"{UNIT}/memory.max": "9\n"}, False),
        (V1, {"cpu/cpu.shares": "1024\n", "memory/memory.stat": ""}, True),
        (V1, {"cpu/docker/c1/cpu.shares": "1024\n", "memory/docker/c1/memory.stat": ""}, False),
        (V1, {}, False),
        ("", {}, False),
    ],
    ids=["v2", "v2 machine", "v2 limited unit", "v1", "v1 machine", "no files", "no groups"],
)
def test_container_sees_its_own_group_as_the_outermost(
    tmp_path: Path, member_of: Path, membership: str, files: dict[str, str], *, expected: bool
) -> None:
    member_of.write_text(membership)
    assert is_in_container(write(tmp_path / "cgroup", files)) is expected
