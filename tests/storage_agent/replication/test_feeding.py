"""What a replica holds of a stream that is merged, deleted from and evicted while it is read."""

from collections.abc import AsyncIterator, Callable
from contextlib import aclosing

import pyarrow as pa
import pytest

from mistbow.errors import UnavailableError
from storage_agent.replication.deletions import with_deletions
from storage_agent.replication.replica import Replica, note_loss
from storage_agent.replication.told import Copy
from storage_agent.streams import compaction, housekeeping, reading
from storage_agent.streams.housekeeping import Bound, Housekeeper
from storage_agent.streams.manifest import Deletion
from storage_agent.streams.reading import Selection, Selector
from storage_agent.streams.streams import Stream, Streams
from tests.storage_agent.conftest import HeldClock

SCHEMA = pa.schema([pa.field("ts", pa.int64(), nullable=False)])


@pytest.fixture(autouse=True)
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """Merge what is small already, and send it in small parts."""
    monkeypatch.setattr(compaction, "COMMITS", 5)
    monkeypatch.setattr(compaction, "FAN_IN", 3)
    monkeypatch.setattr(reading, "_CHUNK_ROWS", 10)


@pytest.fixture
async def source(streams: Streams) -> Stream:
    await streams.create("s", SCHEMA)
    return await streams.get("s")


@pytest.fixture
async def replica(streams: Streams, clock: HeldClock) -> Replica:
    await streams.create("replicas/a/s", SCHEMA)
    copy = Copy(id="1", target="b", stream="s", why="", since=0)
    return Replica("a", copy, await streams.get("replicas/a/s"), clock)


async def fill(stream: Stream, times: range) -> None:
    """Store rows of these times, five a commit."""
    for begin in times[::5]:
        some = pa.array(range(begin, begin + 5), pa.int64())
        await stream.writer.append(pa.RecordBatch.from_arrays([some], schema=SCHEMA))


async def keep(
    stream: Stream,
    clock: HeldClock,
    unheard: Callable[[Deletion], bool] = lambda _: False,
    owed: Callable[[Deletion], bool] = lambda _: False,
) -> None:
    keeper = Housekeeper(
        lambda: [stream.log], clock, Bound, lambda _: True, lambda _: unheard, lambda _: owed
    )
    for _ in range(10):
        await keeper.keep()


async def feed(source: Stream, replica: Replica) -> AsyncIterator[int]:
    """Have a replica follow its source up to the head; yields after each chunk that it took."""
    log = source.log
    await replica.begin("store", log.first, log.head)
    found = reading.follow(log, Selector(source, Selection()), replica.position)
    chunks = with_deletions(
        (each.chunk async for each in found),
        lambda: log.manifest.current,
        log.schema,
        replica.position,
        replica.deleted,
    )
    async with aclosing(chunks):
        async for chunk in chunks:
            await replica.add(chunk)
            yield chunk.rows.num_rows
            if replica.position >= log.head and replica.deleted == log.manifest.current.deleted:
                return


async def times(stream: Stream) -> list[int]:
    found = reading.read(stream.log, Selector(stream, Selection()), 0)
    return sorted([ts async for each in found for ts in each.rows["ts"].to_pylist()])


async def test_what_is_deleted_while_a_run_is_sent(
    source: Stream, replica: Replica, clock: HeldClock
) -> None:
    await fill(source, range(100))
    await keep(source, clock)
    assert source.log.index[0].rows > 30, "it is sent in more than three parts"
    begun = 0
    async with aclosing(feed(source, replica)) as fed:
        async for rows in fed:
            begun += rows
            if rows and begun == rows:
                await source.writer.delete(min_ts=5, max_ts=24)
            elif begun > rows:
                break  # the link is cut before the place of the deletion is reached
    async for _ in feed(source, replica):
        pass
    assert await times(replica.stream) == await times(source) == [*range(5), *range(25, 100)]


async def test_what_was_deleted_during_a_cut_is_deleted_in_an_archive(
    source: Stream, replica: Replica, clock: HeldClock
) -> None:
    await fill(source, range(50))
    clock.now += 1000
    async for _ in feed(source, replica):
        pass
    assert replica.complete
    evicted = clock.now
    await fill(source, range(50, 100))
    source.log.expired_before = lambda: evicted
    await source.writer.delete(min_ts=10, max_ts=19)
    await source.writer.delete(min_ts=60, max_ts=69)
    await fill(source, range(60, 70))
    heard = replica.deleted
    assert heard == 0
    await keep(source, clock, lambda deletion: deletion.id > heard)
    assert source.log.first > 20
    async for _ in feed(source, replica):
        pass
    assert await times(replica.stream) == [*range(10), *range(20, 100)]


async def test_only_what_is_owed_is_remembered_without_end(
    source: Stream, clock: HeldClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(housekeeping, "MOST_UNHEARD", 2)
    await fill(source, range(50))
    for ts in range(4):
        await source.writer.delete(min_ts=ts, max_ts=ts)
    await fill(source, range(50, 100))
    await keep(source, clock, lambda _: True, lambda each: each.id > 1)
    assert [each.id for each in source.log.manifest.current.deletions] == [2, 3, 4]
    await keep(source, clock, lambda _: True)
    assert [each.id for each in source.log.manifest.current.deletions] == [3, 4]


async def test_a_replica_that_lost_rows_is_not_complete_again(
    source: Stream, replica: Replica
) -> None:
    await fill(source, range(50))
    async for _ in feed(source, replica):
        pass
    assert replica.complete
    await note_loss(replica.stream)
    await fill(source, range(50, 100))
    async for _ in feed(source, replica):
        pass
    assert await times(replica.stream) == list(range(100))
    assert not replica.complete


async def test_an_archive_whose_source_forgot_its_deletions_stays(
    source: Stream, replica: Replica, clock: HeldClock
) -> None:
    await fill(source, range(50))
    async for _ in feed(source, replica):
        pass
    await source.writer.delete(min_ts=10, max_ts=19)
    await fill(source, range(50, 100))
    await keep(source, clock)
    assert not source.log.manifest.current.deletions
    with pytest.raises(UnavailableError, match="forgotten"):
        async for _ in feed(source, replica):
            pass
    assert replica.missed
    assert not replica.complete
    assert await times(replica.stream) == list(range(50))
