"""Replicas of a stream whose rows are compacted, deleted and evicted during the replication."""

from collections.abc import AsyncIterator, Callable
from contextlib import aclosing

import pyarrow as pa
import pytest

from mistbow.client.operation_model import Copy
from mistbow.errors import UnavailableError
from storage_agent.replication.follower.replica import Replica, record_loss
from storage_agent.replication.source.deletions import interleave_deletions
from storage_agent.streams import compaction, maintenance, subscription
from storage_agent.streams.maintenance import Maintenance, StorageLimit
from storage_agent.streams.manifest import Tombstone
from storage_agent.streams.streams import Stream, Streams
from storage_agent.streams.subscription import RowSelection, RowSelector
from tests.storage_agent.conftest import ManualClock
from tests.storage_agent.streams.opener import FixedPolicy

SCHEMA = pa.schema([pa.field("ts", pa.int64(), nullable=False)])


@pytest.fixture(autouse=True)
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let compaction merge even small segments, and subscriptions send small chunks."""
    monkeypatch.setattr(compaction, "SEGMENTS_PER_RUN", 5)
    monkeypatch.setattr(compaction, "FAN_IN", 3)
    monkeypatch.setattr(subscription, "_CHUNK_ROWS", 10)


@pytest.fixture
async def source(streams: Streams) -> Stream:
    await streams.create("s", SCHEMA)
    return await streams.get("s")


@pytest.fixture
async def replica(streams: Streams, clock: ManualClock) -> Replica:
    await streams.create("replicas/a/s", SCHEMA)
    copy = Copy(id="1", target="b", stream="s", why="", since=0)
    return Replica("a", copy, await streams.get("replicas/a/s"), clock)


async def fill(stream: Stream, times: range) -> None:
    """Store rows with these times (ms), five in each commit."""
    for begin in times[::5]:
        some = pa.array(range(begin, begin + 5), pa.int64())
        await stream.writer.append(pa.RecordBatch.from_arrays([some], schema=SCHEMA))


async def keep(
    stream: Stream,
    clock: ManualClock,
    unacknowledged: Callable[[Tombstone], bool] = lambda _: False,
    owed_to_offloads: Callable[[Tombstone], bool] = lambda _: False,
) -> None:
    keeper = Maintenance(
        lambda: [stream.log],
        clock,
        StorageLimit,
        lambda _: True,
        lambda _: unacknowledged,
        lambda _: owed_to_offloads,
    )
    for _ in range(10):
        await keeper.run()


async def feed(source: Stream, replica: Replica) -> AsyncIterator[int]:
    """Let a replica follow its source up to the head.

    Yield the number of rows of each stored chunk.
    """
    log = source.log
    await replica.begin("store", log.first, log.head)
    found = subscription.follow(log, RowSelector(source, RowSelection()), replica.position)
    chunks = interleave_deletions(
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
            if (
                replica.position >= log.head
                and replica.deleted == log.manifest.current.last_tombstone
            ):
                return


async def times(stream: Stream) -> list[int]:
    found = subscription.read(stream.log, RowSelector(stream, RowSelection()), 0)
    return sorted([ts async for each in found for ts in each.rows["ts"].to_pylist()])


async def test_deletion_during_the_feed_of_a_run_is_applied(
    source: Stream, replica: Replica, clock: ManualClock
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


async def test_deletion_during_a_cut_is_applied_to_an_archive(
    source: Stream, replica: Replica, clock: ManualClock
) -> None:
    await fill(source, range(50))
    clock.now += 1000
    async for _ in feed(source, replica):
        pass
    assert replica.complete
    evicted = clock.now
    await fill(source, range(50, 100))
    source.log.policy = FixedPolicy(evicted)
    await source.writer.delete(min_ts=10, max_ts=19)
    await source.writer.delete(min_ts=60, max_ts=69)
    await fill(source, range(60, 70))
    applied = replica.deleted
    assert applied == 0
    await keep(source, clock, lambda deletion: deletion.id > applied)
    assert source.log.first > 20
    async for _ in feed(source, replica):
        pass
    assert await times(replica.stream) == [*range(10), *range(20, 100)]


async def test_only_owed_tombstones_are_retained_without_bound(
    source: Stream, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(maintenance, "MAX_UNREPLICATED", 2)
    await fill(source, range(50))
    for ts in range(4):
        await source.writer.delete(min_ts=ts, max_ts=ts)
    await fill(source, range(50, 100))
    await keep(source, clock, lambda _: True, lambda each: each.id > 1)
    assert [each.id for each in source.log.manifest.current.tombstones] == [2, 3, 4]
    await keep(source, clock, lambda _: True)
    assert [each.id for each in source.log.manifest.current.tombstones] == [3, 4]


async def test_replica_with_lost_rows_is_never_complete(source: Stream, replica: Replica) -> None:
    await fill(source, range(50))
    async for _ in feed(source, replica):
        pass
    assert replica.complete
    await record_loss(replica.stream)
    await fill(source, range(50, 100))
    async for _ in feed(source, replica):
        pass
    assert await times(replica.stream) == list(range(100))
    assert not replica.complete


async def test_archive_stays_when_its_source_dropped_tombstones(
    source: Stream, replica: Replica, clock: ManualClock
) -> None:
    await fill(source, range(50))
    async for _ in feed(source, replica):
        pass
    await source.writer.delete(min_ts=10, max_ts=19)
    await fill(source, range(50, 100))
    await keep(source, clock)
    assert not source.log.manifest.current.tombstones
    with pytest.raises(UnavailableError, match="dropped tombstones"):
        async for _ in feed(source, replica):
            pass
    assert replica.missed_deletions
    assert not replica.complete
    assert await times(replica.stream) == list(range(50))
