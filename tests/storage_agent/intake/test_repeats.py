"""Repeats of a /put by its key: stored once, through an outage too, however many keys come."""

from itertools import count
from pathlib import Path
from types import SimpleNamespace

import httpx
import pytest

from mistbow.client.agent import AgentClient
from mistbow.settings import AgentSettings
from storage_agent.intake.spool import Spool
from storage_agent.streams import recent_keys
from storage_agent.streams.recent_keys import OWN, RecentKeys
from storage_agent.streams.segments import Appended
from tests.storage_agent.conftest import HeldClock
from tests.support.agents import running_agent
from tests.support.gate import Gate
from tests.support.waiting import eventually


def test_a_key_is_known_through_an_outage_and_after(
    settings: AgentSettings, clock: HeldClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recent_keys, "MOST", 2)
    values = count()

    def put(key: str | None = None) -> int:
        point = {"metricID": "m", "entityID": "e", "val": next(values), "timestamp": clock.now}
        headers = {} if key is None else {"Idempotency-Key": key}
        body = {"monitoring": [point]}
        # Storing is tried for a while before a body goes to the spool.
        return httpx.post(f"{url}/put", json=body, headers=headers, timeout=60).status_code

    def stored() -> int:
        return sum(len(s.values) for s in client.get("m", latest=False)[0].data)

    with Gate(settings.ignite_port) as gate:
        through = settings.model_copy(update={"ignite_port": gate.port})
        with running_agent(through, clock) as url:
            client = AgentClient(url)
            assert put("before") == 200
            # Keys of the agent's own making take no room of others.
            assert [put() for _ in range(5)] == [200] * 5
            gate.shut()
            eventually(lambda: put("missed") == 202, what="Ignite is missed")
            assert put("before") == 200
            assert [put(f"key {n}") for n in range(6)] == [202] * 6
            assert [put("missed"), put("key 0"), put("key 5")] == [202] * 3
            gate.open()
            eventually(lambda: put() == 200, what="points are stored at once again")
            at_once = stored()
            assert [put("missed"), put("key 0"), put("key 5")] == [200] * 3
            assert stored() == at_once
            client.close()


async def test_what_is_stored_already_is_not_stored_from_the_spool(tmp_path) -> None:
    path = tmp_path / "spool.db"
    spool = Spool(path, 2**20)
    for key in "abac":
        await spool.append(key, b"{}", 1)
    assert spool.bodies == 3
    await spool.settle("b".__eq__)
    assert [each.key for each in await spool.next(9, 9)] == ["a", "c"]
    await spool.remove(await spool.next(1, 9))
    await spool.close()
    again = Spool(path, 2**20)
    assert [await again.known(key) for key in "abcd"] == ["stored", "stored", "waiting", None]
    await again.append("a", b"{}", 1)
    assert again.bodies == 1
    await again.close()


async def test_keys_of_what_was_spooled_age_by_no_clock_that_can_be_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1_000_000.0
    monkeypatch.setattr("storage_agent.intake.spool.time", SimpleNamespace(monotonic=lambda: now))
    spool = Spool(tmp_path / "spool.db", 2**20)
    await spool.append("a", b"{}", 1)
    await spool.remove(await spool.next(1, 9))
    await spool.close()
    now = 5.0  # the node was started again
    spool = Spool(tmp_path / "spool.db", 2**20)
    assert await spool.known("a") == "stored"
    now += 599
    assert await spool.known("a") == "stored"
    now += 2
    assert await spool.known("a") is None
    await spool.close()


def test_keys_age_only_while_there_are_appends(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    keys = RecentKeys()
    answer = Appended(0, 1, 0)
    keys.learn({"k": answer})
    now = 10_000.0  # without Ignite
    keys.learn({"l": answer, f"{OWN}1": answer})
    assert "k" in keys
    for _ in range(200):
        now += 4.0
        keys.learn({})
    assert not len(keys)


async def test_a_damaged_file_is_set_aside(tmp_path) -> None:
    path = tmp_path / "spool.db"
    path.write_bytes(b"this is no database" * 500)
    spool = Spool(path, 2**20)
    await spool.append("a", b"{}", 1)
    assert await spool.known("a") == "waiting"
    await spool.close()
    [kept] = tmp_path.glob("spool.db.damaged-*")
    assert kept.read_bytes().startswith(b"this is no database")
