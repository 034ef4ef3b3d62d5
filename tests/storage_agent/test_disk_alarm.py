"""The alarm for a disk that can take few more files."""

import os
from pathlib import Path

import pytest

from storage_agent.agent import disk_alarm
from storage_agent.agent.disk_alarm import DiskAlarm


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
