"""Deletions of records, while other records are put and deleted."""

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from concurrent.futures import ThreadPoolExecutor

import msgspec
import pyarrow as pa
import pytest

from ignite_server.server import IgniteServer
from mistbow.errors import UnavailableError
from mistbow.runtime.slices import Slices
from storage_agent.ignite.client import IgniteClient
from storage_agent.records import kind as kind_module
from storage_agent.records.bodies import RecordItem
from storage_agent.records.kind import RecordKind
from storage_agent.records.latest import LatestRecords
from storage_agent.streams.log import StreamLog
from storage_agent.streams.streams import Streams
from storage_agent.work_threads import MAX_LOOP_ITEMS
from tests.storage_agent.conftest import ManualClock
from tests.storage_agent.gate import close_gate
from tests.support.conditions import aeventually

_KEYS = [f"k{number}" for number in range(1000)]


@pytest.fixture
async def kind(ignite: IgniteServer, clock: ManualClock) -> AsyncIterator[RecordKind]:
    client = IgniteClient([("127.0.0.1", ignite.port)])
    client.start()
    assert await client.wait_connected(20)
    streams = Streams(client, clock, 0)
    yield RecordKind("application", streams)
    await streams.close()
    await client.close()


async def put(kind: RecordKind, keys: Collection[str], ts: int) -> None:
    items = [RecordItem(key, msgspec.Raw(str(ts).encode()), ts) for key in keys]
    await kind.put(items, None, "app")


def times(kind: RecordKind) -> dict[str, int]:
    return {key: record.ts for key, record in kind.latest.items()}


def pausing(monkeypatch: pytest.MonkeyPatch, during: Callable[[], Awaitable[None]]) -> None:
    """Let a recheck await ``during`` once, after the records of some of its keys were replaced."""
    replace = LatestRecords.replace
    waiting = []

    def replaced(latest: LatestRecords, keys: list[str], found: LatestRecords) -> None:
        replace(latest, keys, found)
        if not replaced_once:
            replaced_once.append(True)
            waiting.append(during)

    class Pausing(Slices):
        async def pause(self) -> None:
            if waiting:
                await waiting.pop()()

    replaced_once: list[bool] = []
    monkeypatch.setattr(LatestRecords, "replace", replaced)
    monkeypatch.setattr(kind_module, "Slices", Pausing)


async def test_earlier_record_that_is_put_during_a_deletion_is_the_latest(
    kind: RecordKind, monkeypatch: pytest.MonkeyPatch
) -> None:
    await put(kind, _KEYS, 5)
    # The records in memory have a greater time until they are removed.
    pausing(monkeypatch, lambda: put(kind, _KEYS, 3))
    await kind.delete(_KEYS, None, None)
    assert times(kind) == dict.fromkeys(_KEYS, 3)


async def test_record_that_is_put_again_and_again_ends_no_later_deletion(
    kind: RecordKind, monkeypatch: pytest.MonkeyPatch
) -> None:
    await put(kind, _KEYS, 5)
    monkeypatch.setattr(kind_module, "Slices", type("Each", (Slices,), {"pause": pause}))
    writing = asyncio.create_task(put_repeatedly(kind))
    async with asyncio.timeout(30):
        await kind.delete(_KEYS, None, 5)
    writing.cancel()
    await asyncio.gather(writing, return_exceptions=True)
    found = times(kind)
    assert found.keys() <= {"k1"}


async def pause(slices: Slices) -> None:
    await asyncio.sleep(0)


async def put_repeatedly(kind: RecordKind) -> None:
    for ts in range(6, 10**6):
        await put(kind, ["k1"], ts)


async def fail(*_: object) -> int:
    raise UnavailableError("a run of the stream was replaced during the read")


@pytest.mark.parametrize("applied", [0, 1, 2])
async def test_record_that_is_being_applied_during_a_recheck_is_the_latest(
    kind: RecordKind, monkeypatch: pytest.MonkeyPatch, applied: int
) -> None:
    for ts in (1, 5):
        await put(kind, "klm", ts)
    await delete_unchecked(kind, monkeypatch, "klm")
    gate = close_gate(monkeypatch, applied)
    putting = asyncio.create_task(put(kind, "klm", 3))
    await gate.wait_reached()
    checking = await check_alone(kind, monkeypatch)
    gate.open()
    await asyncio.gather(putting, checking)
    assert times(kind) == {"k": 3, "l": 3, "m": 3}


async def delete_unchecked(
    kind: RecordKind, monkeypatch: pytest.MonkeyPatch, keys: Collection[str]
) -> None:
    """Delete the records of the time 5, but let the recheck fail, so that ``expire`` repeats it."""
    with monkeypatch.context() as fault:
        fault.setattr(kind_module, "_replay", fail)
        with contextlib.suppress(UnavailableError):
            await kind.delete(keys, 5, 5)


async def check_alone(kind: RecordKind, monkeypatch: pytest.MonkeyPatch) -> asyncio.Future[None]:
    """Start a recheck while records are applied; return it when its pass without puts begins."""
    resolve, is_alone = kind._resolve, asyncio.Event()

    async def observed(log: StreamLog, keys: set[str], *, alone: bool) -> set[str]:
        if alone:
            is_alone.set()
        return await resolve(log, keys, alone=alone)

    monkeypatch.setattr(kind, "_resolve", observed)
    checking = asyncio.create_task(kind.expire())
    # The other passes do not find the records that are not in the log yet.
    passes = asyncio.create_task(is_alone.wait())
    await asyncio.wait([checking, passes], return_when=asyncio.FIRST_COMPLETED)
    assert not checking.done()
    return checking


async def test_recheck_that_puts_wait_for_does_not_wait_for_long_reads(
    kind: RecordKind, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = [f"k{number}" for number in range(MAX_LOOP_ITEMS + 1)]
    await put(kind, keys[:1], 5)
    await delete_unchecked(kind, monkeypatch, keys[:1])
    gate = close_gate(monkeypatch, 0, len(keys))
    putting = asyncio.create_task(put(kind, keys, 3))
    await gate.wait_reached()
    checking = await check_alone(kind, monkeypatch)
    loop, end = asyncio.get_running_loop(), threading.Event()
    loop.set_default_executor(ThreadPoolExecutor(1))
    reading = loop.run_in_executor(None, end.wait)
    gate.open()
    try:
        async with asyncio.timeout(10):
            await asyncio.gather(putting, checking)
    finally:
        end.set()
        await reading
    assert times(kind) == dict.fromkeys(keys, 3)


async def test_two_deletions_of_a_key_at_the_same_time_are_both_applied(
    kind: RecordKind, monkeypatch: pytest.MonkeyPatch
) -> None:
    for ts in (1, 2, 3):
        await put(kind, ["k"], ts)
    read, go = asyncio.Event(), asyncio.Event()
    replay = kind_module._replay

    async def slow(log: StreamLog, latest: LatestRecords, keys: pa.Array | None = None) -> int:
        end = await replay(log, latest, keys)
        read.set()
        await go.wait()
        return end

    monkeypatch.setattr(kind_module, "_replay", slow)
    first = asyncio.create_task(kind.delete(["k"], 3, 3))
    await read.wait()
    second = asyncio.create_task(kind.delete(["k"], 2, 2))

    # The second one waits for the end of the first one's recheck.
    async def are_stored() -> bool:
        assert kind._stream is not None
        return len(kind._stream.log.manifest.current.tombstones) == 2

    await aeventually(are_stored, what="both tombstones are stored")
    for _ in range(3):
        await asyncio.sleep(0)
    go.set()
    await asyncio.gather(first, second)
    assert times(kind) == {"k": 1}
