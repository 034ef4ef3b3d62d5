"""The tombstones and garbage in a manifest: bounded, and retained as long as needed."""

import asyncio
from collections.abc import AsyncIterator

import msgspec
import pytest

from ignite_server.server import IgniteServer
from mistbow.errors import StorageFullError, TooLargeError, UnavailableError
from storage_agent.ignite.client import METADATA, IgniteClient
from storage_agent.streams import maintenance, manifest
from storage_agent.streams.maintenance import Maintenance, StorageLimit
from storage_agent.streams.manifest import ManifestCell
from storage_agent.streams.streams import Stream
from storage_agent.streams.subscription import RowSelection, RowSelector, read
from tests.storage_agent.conftest import ManualClock
from tests.storage_agent.streams.opener import Opener, rows


class Slow(IgniteClient):
    """A client of Ignite whose calls of ``replace`` wait until the test sets ``go``."""

    def __init__(self, port: int) -> None:
        super().__init__([("127.0.0.1", port)])
        self.came = asyncio.Event()
        self.go = asyncio.Event()
        self.go.set()

    async def replace(self, cache: str, key: str, old: str, new: str) -> bool:
        self.came.set()
        await self.go.wait()
        return await super().replace(cache, key, old, new)


@pytest.fixture
async def slow(ignite: IgniteServer) -> AsyncIterator[Slow]:
    client = Slow(ignite.port)
    client.start()
    assert await client.wait_connected(20)
    yield client
    await client.close()


def keeper(stream: Stream, clock: ManualClock) -> Maintenance:
    return Maintenance(lambda: [stream.log], clock, StorageLimit, lambda _: True)


async def times(stream: Stream) -> list[int]:
    found: list[int] = []
    async for each in read(stream.log, RowSelector(stream, RowSelection()), 0):
        found += each.rows["ts"].to_pylist()
    return found


async def test_tombstones_of_an_idle_stream_are_dropped(
    opener: Opener, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(maintenance, "_MAX_TOMBSTONES", 4)
    stream = await opener.open()
    for commit in ((0, 1), (2, 3), (4, 5, 6)):
        await stream.writer.append(rows(*commit))
    for time in (0, 3, 5, 5, 5, 7, 8, 9):
        await stream.writer.delete(min_ts=time, max_ts=time)
    for _ in range(3):
        await keeper(stream, clock).run()
    # The last commit is never merged, so what hits it stays; what others do already does not.
    [left] = stream.log.manifest.current.tombstones
    assert (left.min_ts, left.max_ts) == (5, 5)
    for each in (stream, await opener.open()):
        assert await times(each) == [1, 2, 4, 6]


async def test_tombstone_added_while_others_are_dropped_stays(
    slow: Slow, clock: ManualClock
) -> None:
    opener = Opener(slow, clock)
    stream = await opener.open()
    await stream.writer.delete()  # of nothing: to be forgotten at once
    await stream.writer.append(rows(1, 2))
    slow.came.clear()
    slow.go.clear()
    deleting = asyncio.create_task(stream.writer.delete(min_ts=1, max_ts=1))
    await slow.came.wait()
    keeping = asyncio.create_task(keeper(stream, clock).run())
    done, _ = await asyncio.wait([keeping], timeout=0.1)
    assert not done
    slow.go.set()
    await asyncio.gather(deleting, keeping)
    assert [each.id for each in stream.log.manifest.current.tombstones] == [2]
    assert await times(stream) == [2]
    await stream.writer.close()


async def test_full_manifest_rejects_appends_but_not_compaction(
    opener: Opener, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(manifest, "MAX_BYTES", 1000)
    stream = await opener.open()
    await stream.writer.append(rows(1))
    with pytest.raises(TooLargeError, match="takes"):
        await stream.writer.delete(("key",), [(f"k{number}",) for number in range(100)])
    for _ in range(5):
        await stream.writer.delete(min_ts=5, max_ts=5)
    refused = [stream.writer.delete(min_ts=5, max_ts=5) for _ in range(10)]
    with pytest.raises(UnavailableError, match="too many tombstones"):
        await asyncio.gather(*refused)
    monkeypatch.setattr(manifest, "MAX_BYTES", 100)
    with pytest.raises(StorageFullError, match="is full"):
        await stream.writer.append(rows(2))
    monkeypatch.setattr(maintenance, "_MAX_TOMBSTONES", 0)
    await keeper(stream, clock).run()
    monkeypatch.setattr(manifest, "MAX_BYTES", 1000)
    await stream.writer.append(rows(2))
    assert await times(stream) == [1, 2]


async def test_manifest_is_measured_in_bytes(
    opener: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(manifest, "MAX_BYTES", 2000)
    stream = await opener.open()
    await stream.writer.append(rows(1))
    # 600 bytes, but 200 characters.
    for _ in range(2):
        await stream.writer.delete(("key",), [("字" * 200,)])
    before = await opener.ignite.get(METADATA, stream.log.manifest.key)
    with pytest.raises(UnavailableError, match="too many tombstones"):
        await stream.writer.delete(("key",), [("字" * 200,)])
    assert await opener.ignite.get(METADATA, stream.log.manifest.key) == before
    with pytest.raises(TooLargeError, match=r"has 9437184 bytes"):
        await opener.ignite.replace(METADATA, "key", "old", "字" * (3 * 2**20))


async def test_change_of_a_manifest_retains_its_other_tombstones(opener: Opener) -> None:
    stream = await opener.open()
    cell = stream.log.manifest
    for name in ("a", "b"):
        await stream.writer.delete(("key",), [[f"{name}{number}"] for number in range(1000)])
    first = cell.current.tombstones[0]
    assert isinstance(first.keys[0], tuple)
    tombstones = stream.log.tombstones
    await stream.writer.delete(min_ts=5, max_ts=5)
    # Not a copy: large tombstones would be decoded, and compared key by key, after each change.
    assert cell.current.tombstones[0] is first
    assert stream.log.tombstones is not tombstones
    tombstones = stream.log.tombstones
    await cell.update(lambda now: msgspec.structs.replace(now, building=("1-2-x", 1)))
    assert stream.log.tombstones is tombstones
    stored = ManifestCell(opener.ignite, stream.log.key, lambda: 9)
    await stored.load()
    assert stored.current == cell.current


async def test_change_is_repeated_on_the_manifest_of_another_agent(opener: Opener) -> None:
    cells = [ManifestCell(opener.ignite, "s", lambda: 1) for _ in range(2)]
    for cell in cells:
        await cell.load()
    await cells[0].update(lambda now: msgspec.structs.replace(now, first=5))
    found = await cells[1].update(lambda now: msgspec.structs.replace(now, building=("x", 1)))
    assert (found.first, found.building) == (5, ("x", 1))
    await cells[0].load()
    assert cells[0].current == found == cells[1].current
