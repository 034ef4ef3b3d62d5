"""A spool that an earlier process has left, and that is not open yet: points may wait in it."""

import threading
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

from mistbow.client.agent import AgentClient
from mistbow.client.agent_model import Point
from mistbow.errors import UnavailableError
from storage_agent.http.points import PutBody
from storage_agent.request_key import RequestKey
from storage_agent.settings import AgentSettings
from storage_agent.store_and_forward.store_and_forward import StoreAndForward
from storage_agent.timeseries.deletion import count_points
from tests.storage_agent.conftest import ManualClock
from tests.support.agents import running_agent
from tests.support.conditions import eventually

NOW = 1_795_262_400_000


def without_ignite(home: Path) -> StoreAndForward:
    return StoreAndForward(AgentSettings(home=home), lambda: None, lambda _: False)


async def test_points_may_wait_until_the_spool_was_opened(tmp_path: Path) -> None:
    first = without_ignite(tmp_path)
    accepted = await first.put(PutBody([Point("m", "e", NOW, 1)]), None)
    assert accepted.spooled
    await first.close()
    again = without_ignite(tmp_path)
    assert again.has_spooled
    with pytest.raises(UnavailableError, match="the spool is not open") as raised:
        again.check_drained("a deletion")
    assert "mistbow_agent_spooled_bodies" not in str(raised.value.hint)
    spool = tmp_path / "agent" / "spool.db"
    spool.rename(tmp_path / "kept")
    spool.mkdir()
    with pytest.raises(UnavailableError, match="cannot be read"):
        await again.drain()
    assert again.has_spooled
    with pytest.raises(UnavailableError) as raised:
        again.check_drained("a deletion")
    assert str(spool) in str(raised.value.hint)
    spool.rmdir()
    (tmp_path / "kept").rename(spool)
    await again.drain()
    assert again.spooled_bodies == 1
    with pytest.raises(UnavailableError, match="points wait in the spool") as raised:
        again.check_drained("a deletion")
    assert "mistbow_agent_spooled_bodies" in str(raised.value.hint)
    await again.close()


async def test_no_points_wait_after_the_first_drain_without_a_file(tmp_path: Path) -> None:
    points = without_ignite(tmp_path)
    await points.drain()
    assert not points.has_spooled
    points.check_drained("a deletion")
    await points.close()


def test_deletion_and_backup_are_refused_while_the_spool_cannot_be_opened(
    settings: AgentSettings, clock: ManualClock, tmp_path: Path
) -> None:
    spool = tmp_path / "agent" / "spool.db"
    spool.mkdir(parents=True)
    with running_agent(settings, clock, ready=False) as url:
        point = {"metricID": "m", "entityID": "e", "val": 1, "timestamp": clock.now}

        def put() -> bool:
            return httpx.post(f"{url}/put", json={"monitoring": [point]}).is_success

        def delete() -> httpx.Response:
            return httpx.request("DELETE", f"{url}/monitoring", json={"metricID": ["m"]})

        eventually(put, what="the agent has recovered")
        for answer in (delete(), httpx.post(f"{url}/backups")):
            assert answer.status_code == 503
            assert "would miss them" in answer.json()["error"]["message"]
            assert str(spool) in answer.json()["error"]["hint"]
        spool.rmdir()
        eventually(lambda: delete().is_success, what="the spool is open")


def test_deletion_is_refused_if_points_were_spooled_while_they_were_counted(
    settings: AgentSettings, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    spools: list[StoreAndForward] = []
    refused = threading.Event()
    drain = StoreAndForward.drain

    async def count_slowly(*arguments: Any) -> Any:
        [points] = spools
        body = msgspec.json.encode(PutBody([Point("m", "e", clock.now + 1, 2)]))
        await points._spool.append(RequestKey("spooled"), body, 1)
        return await count_points(*arguments)

    async def drain_later(points: StoreAndForward) -> float | None:
        if refused.is_set():
            return await drain(points)
        await points._spool.open()
        spools[:] = [points]
        return None

    monkeypatch.setattr("storage_agent.agent.agent.count_points", count_slowly)
    monkeypatch.setattr(StoreAndForward, "drain", drain_later)
    with running_agent(settings, clock) as url:
        point = {"metricID": "m", "entityID": "e", "val": 1, "timestamp": clock.now}
        assert httpx.post(f"{url}/put", json={"monitoring": [point]}).is_success
        eventually(lambda: spools, what="the spool is open")
        answer = httpx.request("DELETE", f"{url}/monitoring", json={"metricID": ["m"]})
        assert (answer.status_code, answer.json()["error"]["code"]) == (503, "unavailable")
        assert "points wait in the spool" in answer.json()["error"]["message"]
        refused.set()
        client = AgentClient(url)

        def values() -> list[float]:
            node, *_ = client.get("m", latest=False)
            return [each.value for series in node.data for each in series.values]

        eventually(lambda: values() == [1, 2], what="no point was deleted")
        client.close()
