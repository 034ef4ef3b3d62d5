"""The records that reads copy, and the turns of concurrent reads of many records."""

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


async def test_read_of_some_records_copies_no_others(
    store: RecordStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    copied: list[int] = []
    copy = LatestRecords._snapshot

    def snapshot(latest: LatestRecords, *arguments: Any, **options: Any) -> LatestRecords:
        found = copy(latest, *arguments, **options)
        copied.append(len(found) + (0 if found._keys is None else len(found._keys.entries)))
        return found

    latest = store._ready().kinds["application"].latest
    await latest.indexes("s", ["n"])
    await latest.sort()
    some = [f"k{n}" for n in range(1500)]
    latest.apply(rows(some, 2), 1, 0)
    monkeypatch.setattr(LatestRecords, "_snapshot", snapshot)
    answer = await store.get("application", RecordReadBody(frozenset(some)))
    assert len(msgspec.json.decode(answer)["application"]) == 1500
    query = RecordQuery.of(RecordQueryBody("s", {"n": {"gte": 2}}), ("n",))
    assert len(await query.run(list, latest)) == 1500
    assert copied == [1500, 1500]
