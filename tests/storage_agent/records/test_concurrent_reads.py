"""Concurrent reads of many records, which take turns."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from storage_agent.ignite.client import IgniteClient
from storage_agent.membership.fabric_membership import FabricMembership
from storage_agent.records import store as store_module
from storage_agent.records.bodies import RecordQueryBody, RecordReadBody
from storage_agent.records.latest import LatestRecords
from storage_agent.records.query import RecordQuery
from storage_agent.records.store import RecordStore
from storage_agent.settings import AgentSettings
from storage_agent.streams.streams import Streams
from storage_agent.work_threads import WORK_THREADS, limit_work_threads
from tests.storage_agent.conftest import ManualClock
from tests.storage_agent.records.test_latest import many, rows


@pytest.fixture
async def store(tmp_path: Path, clock: ManualClock) -> AsyncIterator[RecordStore]:
    """Return a store of 2000 application records, without Ignite."""
    limit_work_threads()
    settings = AgentSettings(home=tmp_path, collect_routes=False)
    store = RecordStore(settings, FabricMembership(settings, clock), clock)
    await store.open(Streams(IgniteClient([]), clock, 0))
    kind = store._ready().kinds["application"]
    kind.latest.apply(rows([f"k{n}" for n in range(2000)], 1), 0, 0)
    yield store
    await store.close()


async def test_concurrent_reads_have_as_many_results_in_memory_as_threads(
    store: RecordStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[LatestRecords] = []
    ended: list[bytes] = []
    concurrent: list[int] = []
    copy = LatestRecords._snapshot

    def snapshot(latest: LatestRecords, *arguments: Any, **options: Any) -> LatestRecords:
        begun.append(latest)
        concurrent.append(len(begun) - len(ended))
        return copy(latest, *arguments, **options)

    def encode(answer: object) -> bytes:
        ended.append(msgspec.json.encode(answer))
        return ended[-1]

    await store._ready().kinds["application"].latest.sort()
    monkeypatch.setattr(LatestRecords, "_snapshot", snapshot)
    json = SimpleNamespace(encode=encode)
    monkeypatch.setattr(store_module, "msgspec", SimpleNamespace(json=json))
    answers = await asyncio.gather(*(store.get("application", RecordReadBody()) for _ in range(20)))
    assert {len(msgspec.json.decode(each)["application"]) for each in answers} == {2000}
    assert max(concurrent) <= WORK_THREADS


async def test_query_finds_no_record_that_changed_before_its_turn() -> None:
    latest = many()
    query = RecordQuery.of(RecordQueryBody("s", {"n": 1}), ("n",))
    await latest.indexes("s", ["n"])
    async with AsyncExitStack() as others:
        for _ in range(WORK_THREADS):
            await others.enter_async_context(latest.turn(2000))
        reading = asyncio.create_task(query.run(list, latest))
        for _ in range(3):
            await asyncio.sleep(0)
        latest.apply(rows(["k5"], 2), 1, 0)
    found = await reading
    assert {each.key for each in found} == {f"k{n}" for n in range(2000)} - {"k5"}
