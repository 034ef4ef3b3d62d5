"""The warnings of an agent, which operators see as a problem and its remedy."""

import asyncio
from pathlib import Path

import pytest

from mistbow.certificates import CertificateWatch
from mistbow.clock import MAX_AHEAD_MS
from storage_agent.agent.agent import Agent
from storage_agent.agent.clock_steps import frontier_warnings
from storage_agent.agent.disk_alarm import DiskAlarm
from storage_agent.settings import AgentSettings
from storage_agent.store_and_forward.store_and_forward import StoreAndForward
from tests.storage_agent.conftest import ManualClock
from tests.storage_agent.membership.test_clock_skew import recorded

REMEDIES = {"check", "find", "free", "issue", "replace", "synchronize"}
"""The verbs with which remedies begin."""


async def _spool_warnings(home: Path) -> list[str]:
    (home / "agent").mkdir()
    (home / "agent" / "spool.db.damaged-1.json").touch()
    points = StoreAndForward(AgentSettings(home=home), lambda: None, lambda _: False)
    found = await points.spool_warnings()
    await points.close()
    return found


async def test_each_warning_of_an_agent_is_a_problem_and_after_its_colon_a_remedy(
    tmp_path: Path,
) -> None:
    disk = DiskAlarm(tmp_path, 2**40)
    await disk.check()
    now = 10**12
    found = [
        frontier_warnings(now + MAX_AHEAD_MS + 1, now),
        recorded(ManualClock(now), 700, 20).problems,
        await _spool_warnings(tmp_path),
        CertificateWatch(tmp_path / "missing.pem").warnings(),
        CertificateWatch(None, (tmp_path / "missing.pem",)).warnings(),
        disk.problems,
    ]
    for [text] in found:
        problem, *remedies = text.split(": ")
        assert len(remedies) == 1, text
        assert remedies[0].split()[0] in REMEDIES, text
        assert any(letter.isdigit() for letter in problem) or "contains" in problem, text


async def test_background_tasks_that_have_ended_are_warnings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail() -> None:
        raise RuntimeError("broken")

    async def await_cancelled(_: DiskAlarm) -> None:
        waited = asyncio.get_running_loop().create_future()
        waited.cancel()
        await waited

    monkeypatch.setattr(DiskAlarm, "check", await_cancelled)
    agent = Agent(AgentSettings(home=tmp_path, ignite_port=1))
    agent.start()
    agent.membership.tasks.spawn("metadata of other sites", fail())
    agent.replication.tasks.spawn("replicas of other sites", fail())
    for _ in range(5):
        await asyncio.sleep(0)
    found = [text.partition(":")[0] for text in await agent.warnings()]
    assert found == [
        "the background task 'disk check' has ended",
        "the background task 'metadata of other sites' has ended",
        "the background task 'replicas of other sites' has ended",
    ]
    await agent.close()
