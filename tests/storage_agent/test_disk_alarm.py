"""The alarm for a disk that can take few more files."""

import os
from pathlib import Path

import prometheus_client
import pytest

from storage_agent.agent import disk_alarm
from storage_agent.agent.disk_alarm import DiskAlarm


def exported(metric: str) -> float | None:
    return prometheus_client.REGISTRY.get_sample_value(f"mistbow_agent_disk_{metric}")


async def test_free_inodes_are_a_metric(tmp_path: Path) -> None:
    status = os.statvfs(tmp_path)
    await DiskAlarm(tmp_path, 1).check()
    assert exported("inodes") == status.f_files
    # Other processes create and delete files at the same time.
    assert exported("free_inodes") == pytest.approx(status.f_favail, abs=status.f_files / 10)


async def test_few_free_inodes_are_a_problem(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not os.statvfs(tmp_path).f_files:
        pytest.skip("this file system has no limit of inodes")
    alarm = DiskAlarm(tmp_path, 1)
    await alarm.check()
    assert alarm.problems == []
    monkeypatch.setattr(disk_alarm, "_MIN_INODES", 2**63)
    await alarm.check()
    [problem] = alarm.problems
    assert "more files (inodes)" in problem
    disabled = DiskAlarm(tmp_path, 0)
    await disabled.check()
    assert disabled.problems == []
