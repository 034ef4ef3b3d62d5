"""Repeated requests to /put with the same key: stored once, also across an outage."""

import asyncio
from itertools import count
from pathlib import Path
from types import SimpleNamespace

import httpx
import pytest

from mistbow.client.agent import AgentClient
from mistbow.errors import StorageFullError
from storage_agent.request_key import RequestKey
from storage_agent.settings import AgentSettings
from storage_agent.store_and_forward.spool import Spool
from storage_agent.streams import idempotency_keys
from storage_agent.streams.idempotency_keys import INTERNAL_PREFIX, IdempotencyKeys
from storage_agent.streams.segments import AppendResult
from tests.storage_agent.conftest import ManualClock
from tests.support.agents import running_agent
from tests.support.conditions import eventually
from tests.support.gate import Gate


def test_key_is_recognized_during_an_outage_and_after(
    settings: AgentSettings, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(idempotency_keys, "MAX_KEYS", 2)
    values = count()

    def put(key: str | None = None, val: int = 0) -> int:
        value = next(values) if key is None else val
        point = {"metricID": "m", "entityID": "e", "val": value, "timestamp": clock.now}
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
            assert [put(key, val=1) for key in ("before", "missed")] == [422, 422]
            assert [put(f"key {n}") for n in range(6)] == [202] * 6
            assert [put("missed"), put("key 0"), put("key 5")] == [202] * 3
            gate.open()
            eventually(lambda: put() == 200, what="points are stored at once again")
            at_once = stored()
            assert [put("missed", val=1), put("key 5", val=1)] == [422, 422]
            assert [put("missed"), put("key 0"), put("key 5")] == [200] * 3
            assert stored() == at_once
            client.close()


def test_spooled_body_is_stored_again_after_its_points_were_deleted(
    settings: AgentSettings, clock: ManualClock
) -> None:
    with Gate(settings.ignite_port) as gate:
        gate.shut()
        through = settings.model_copy(update={"ignite_port": gate.port})
        with running_agent(through, clock, ready=False) as url:
            client = AgentClient(url)
            body = f"m,host=e value=1 {clock.now}000000"

            def stored() -> list[float]:
                return client.read("raw").table["value"].to_pylist()

            assert httpx.post(f"{url}/write", content=body).is_success
            gate.open()
            eventually(lambda: httpx.get(f"{url}/readyz").is_success, what="the agent is ready")
            eventually(
                lambda: client.operations.status().spooled_bodies == 0, what="the body is stored"
            )
            assert httpx.post(f"{url}/write", content=body).is_success
            assert stored() == [1.0]
            client.delete("m")
            assert stored() == []
            assert httpx.post(f"{url}/write", content=body).is_success
            assert stored() == [1.0]
            client.close()


async def test_spool_removes_bodies_that_are_stored(tmp_path) -> None:
    path = tmp_path / "spool.db"
    spool = Spool(path, 2**20)
    for key in "abac":
        await spool.append(RequestKey(key), b"{}", 1)
    assert spool.bodies == 3
    await spool.remove_stored(RequestKey("b").__eq__)
    assert [each.key.text for each in await spool.next(9, 9)] == ["a", "c"]
    await spool.remove(await spool.next(1, 9))
    await spool.close()
    again = Spool(path, 2**20)
    assert [await again.status(RequestKey(key)) for key in "abcd"] == [
        "stored",
        "stored",
        "waiting",
        None,
    ]
    await again.append(RequestKey("a"), b"{}", 1)
    assert again.bodies == 1
    await again.close()


async def test_spool_forgets_the_keys_of_bodies_whose_points_may_be_deleted(
    tmp_path: Path,
) -> None:
    spool = Spool(tmp_path / "spool.db", 2**20)
    keys = [RequestKey("chosen"), RequestKey.of_body("lines", "1")]
    for key in keys:
        await spool.append(key, b"{}", 1)
    await spool.remove(await spool.next(9, 9))
    await spool.forget_bodies()
    assert [await spool.status(key) for key in keys] == ["stored", None]
    await spool.close()


async def test_spool_forgets_the_keys_of_bodies_although_the_disk_is_full(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "spool.db", 2**20)
    keys = [
        RequestKey("chosen"),
        RequestKey.of_body("lines", "1"),
        RequestKey.of_body("lines", "2"),
    ]
    for key in keys[:2]:
        await spool.append(key, b"{}", 1)
    await spool.remove(await spool.next(9, 9))
    file = spool._file.open()
    file.execute("pragma query_only = on")
    await spool.forget_bodies()
    assert [await spool.status(key) for key in keys] == ["stored", None, None]
    file.execute("pragma query_only = off")
    for key in keys[1:]:
        await spool.append(key, b"{}", 1)
    await spool.remove(await spool.next(9, 9))
    assert [await spool.status(key) for key in keys] == ["stored"] * 3
    await spool.close()


async def test_concurrent_bodies_do_not_exceed_the_limit_of_the_spool(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "spool.db", 15)
    appends = [spool.append(RequestKey(key), bytes(10), 1) for key in "ab"]
    first, second = await asyncio.gather(*appends, return_exceptions=True)
    assert first is None
    assert isinstance(second, StorageFullError)
    assert spool.bodies == 1
    await spool.append(RequestKey("c"), bytes(5), 1)
    await spool.close()


async def test_keys_of_spooled_bodies_age_by_the_monotonic_clock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1_000_000.0
    monkeypatch.setattr(
        "storage_agent.store_and_forward.spool_file.time", SimpleNamespace(monotonic=lambda: now)
    )
    spool = Spool(tmp_path / "spool.db", 2**20)
    await spool.append(RequestKey("a"), b"{}", 1)
    await spool.remove(await spool.next(1, 9))
    await spool.close()
    now = 5.0  # the node was started again
    spool = Spool(tmp_path / "spool.db", 2**20)
    assert await spool.status(RequestKey("a")) == "stored"
    now += 599
    assert await spool.status(RequestKey("a")) == "stored"
    now += 2
    assert await spool.status(RequestKey("a")) is None
    await spool.close()


def test_keys_age_only_while_there_are_appends(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    keys = IdempotencyKeys()
    answer = AppendResult(0, 1, 0)
    keys.record({"k": answer})
    now = 10_000.0  # without Ignite
    keys.record({"l": answer, f"{INTERNAL_PREFIX}1": answer})
    assert keys.get(RequestKey("k")) == answer
    for _ in range(200):
        now += 4.0
        keys.record({})
    assert not len(keys)


async def test_damaged_spool_is_moved_aside(tmp_path) -> None:
    path = tmp_path / "spool.db"
    path.write_bytes(b"this is no database" * 500)
    spool = Spool(path, 2**20)
    await spool.append(RequestKey("a"), b"{}", 1)
    assert await spool.status(RequestKey("a")) == "waiting"
    await spool.close()
    [damaged] = tmp_path.glob("spool.db.damaged-*")
    assert damaged.read_bytes().startswith(b"this is no database")
