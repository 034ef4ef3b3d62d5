"""The streams of an agent: refused streams, deletion of streams, and interrupted deletions."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from typing import Any

import pyarrow as pa
import pytest
from prometheus_client import generate_latest

from ignite_server.server import IgniteServer
from mistbow.errors import ConflictError, LostDataError, NotFoundError, UnavailableError
from storage_agent.ignite.client import HISTORICAL, METADATA, IgniteClient
from storage_agent.streams.streams import Streams
from tests.storage_agent.conftest import ManualClock
from tests.storage_agent.streams.opener import SCHEMA, rows
from tests.support.conditions import aeventually


class Failing(IgniteClient):
    """A client of Ignite that fails on demand.

    If ``replaces`` is false, calls of ``replace`` never return. If ``removes`` is false, removals
    raise ``UnavailableError``. If ``late`` is set, the next read of a manifest, or change of a
    stream's record, waits for this event.
    """

    replaces = True
    removes = True
    late: asyncio.Event | None = None

    async def get(self, cache: str, key: str) -> Any:
        found = await super().get(cache, key)
        if key.startswith("manifest/"):
            await self._wait()
        return found

    async def replace(self, cache: str, key: str, old: str, new: str) -> bool:
        if not self.replaces:
            await asyncio.Event().wait()
        if key.startswith("stream/"):
            await self._wait()
        return await super().replace(cache, key, old, new)

    async def _wait(self) -> None:
        late, self.late = self.late, None
        if late is not None:
            await late.wait()

    async def remove_all(self, cache: str, keys: Iterable[str]) -> None:
        if not self.removes:
            raise UnavailableError("Ignite is away")
        await super().remove_all(cache, keys)


@pytest.fixture
async def failing(ignite: IgniteServer) -> AsyncIterator[Failing]:
    client = Failing([("127.0.0.1", ignite.port)])
    client.start()
    assert await client.wait_connected(20)
    yield client
    await client.close()


@pytest.fixture
async def streams(failing: Failing, clock: ManualClock) -> AsyncIterator[Streams]:
    streams = Streams(failing, clock, 0)
    yield streams
    await streams.close()


async def left(ignite: IgniteClient) -> list[str]:
    """Return the keys of Ignite that belong to the stream s, without the key of its record."""
    keys = [key for cache in (HISTORICAL, METADATA) for key in await ignite.keys(cache, "")]
    return [key for key in keys if "s" in key.split("/")[:2] and key != "stream/s"]


async def test_refused_stream_rejects_writes_of_an_earlier_reference(
    failing: Failing, clock: ManualClock
) -> None:
    refused: set[str] = set()

    def check(name: str) -> None:
        if name in refused:
            raise LostDataError("lost")

    streams = Streams(failing, clock, 0, check=check)
    await streams.create("s", SCHEMA)
    stream = await streams.get("s")
    refused.add("s")
    with pytest.raises(LostDataError):
        await stream.writer.append(rows(1))
    with pytest.raises(LostDataError):
        await stream.writer.claim()
    with pytest.raises(LostDataError):
        await stream.writer.delete()
    assert stream.log.head == 0
    refused.clear()
    assert (await stream.writer.append(rows(1))).first == 0
    await streams.close()


async def test_refused_stream_rejects_waiting_appends(failing: Failing, clock: ManualClock) -> None:
    is_created, calls = False, 0

    def check(_: str) -> None:
        nonlocal calls
        calls += is_created
        if calls > 1:
            raise LostDataError("lost")

    streams = Streams(failing, clock, 0, check=check)
    await streams.create("s", SCHEMA)
    stream = await streams.get("s")
    # The append is taken, and its turn comes after.
    waiting = stream.writer.append(rows(1))
    is_created = True
    with pytest.raises(LostDataError):
        await waiting
    assert stream.log.head == 0
    await streams.close()


async def test_recovery_opens_a_refused_stream(
    streams: Streams, failing: Failing, clock: ManualClock
) -> None:
    await streams.create("s", SCHEMA)

    def check(_: str) -> None:
        raise LostDataError("lost")

    again = Streams(failing, clock, 0, check=check)
    await again.recover(await failing.scan(METADATA))
    assert again.find_open("s") is not None
    with pytest.raises(LostDataError):
        await again.get("s")
    await again.close()


async def test_failed_removal_of_a_stream_is_repeated(
    streams: Streams, failing: Failing, clock: ManualClock
) -> None:
    await streams.create("s", SCHEMA)
    await (await streams.get("s")).writer.append(rows(1))
    failing.removes = False
    await streams.delete("s")
    with pytest.raises(NotFoundError):
        await streams.get("s")
    with pytest.raises(UnavailableError, match="is being deleted"):
        await streams.create("s", SCHEMA)
    # So it is for an agent that starts meanwhile.
    another = Streams(failing, clock, 0)
    await another.recover(await failing.scan(METADATA))
    with pytest.raises(UnavailableError):
        await another.finish_deleting()
    failing.removes = True
    await streams.finish_deleting()
    assert await left(failing) == []
    assert await streams.create("s", SCHEMA)
    # What it still has in mind does not harm the new one.
    await another.finish_deleting()
    assert (await (await streams.get("s")).writer.append(rows(2))).first == 0
    await another.close()


async def test_stream_deletion_continues_after_the_client_disconnects(
    streams: Streams, failing: Failing
) -> None:
    await streams.create("s", SCHEMA)
    await (await streams.get("s")).writer.append(rows(1))
    failing.replaces = False

    async def is_gone() -> bool:
        return streams.find_open("s") is None

    asked = asyncio.create_task(streams.delete("s"))
    await aeventually(is_gone)
    for call in (streams.get("s"), streams.create("s", SCHEMA), streams.delete("s")):
        with pytest.raises(UnavailableError, match="is being deleted"):
            await call
    asked.cancel()
    await asyncio.wait([asked])
    failing.replaces = True
    await streams.finish_deleting()
    assert await left(failing) == []
    assert await streams.create("s", SCHEMA)


async def is_late(failing: Failing) -> bool:
    return failing.late is None


async def test_concurrent_creation_of_a_deleted_stream_succeeds_once(
    streams: Streams, failing: Failing, clock: ManualClock
) -> None:
    await streams.create("s", SCHEMA)
    await streams.delete("s")
    failing.late = late = asyncio.Event()
    slower = asyncio.create_task(streams.create("s", pa.schema({"n": pa.int64()})))
    await aeventually(lambda: is_late(failing))
    assert await streams.create("s", SCHEMA)
    late.set()
    with pytest.raises(ConflictError, match="exists with another schema"):
        await slower
    # So it is for an agent that starts later.
    another = Streams(failing, clock, 0)
    assert (await another.get("s")).log.schema == SCHEMA
    await another.close()


async def test_stream_deleted_during_opening_stays_deleted(
    streams: Streams, failing: Failing, clock: ManualClock
) -> None:
    await streams.create("s", SCHEMA)
    another = Streams(failing, clock, 0)
    failing.late = late = asyncio.Event()
    opening = asyncio.create_task(another.get("s"))
    await aeventually(lambda: is_late(failing))
    await another.delete("s")
    late.set()
    with pytest.raises(NotFoundError):
        await opening
    assert await another.create("s", pa.schema({"n": pa.int64()}))
    assert another.find_open("s") is await another.get("s")
    await another.close()


async def test_metrics_of_a_deleted_stream_are_removed(streams: Streams) -> None:
    for _ in range(2):
        # The log of the second stream has another key than its name.
        await streams.create("measured", SCHEMA)
        await (await streams.get("measured")).writer.append(rows(1))
        assert b'stream="measured' in generate_latest()
        await streams.delete("measured")
        assert b'stream="measured' not in generate_latest()
