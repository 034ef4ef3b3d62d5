"""Replicas of rows that do not fit into one segment together."""

from collections.abc import AsyncIterator
from types import SimpleNamespace

import msgspec
import numpy as np
import pyarrow as pa
import pytest
from structlog.testing import capture_logs

from mistbow.client.operation_model import Copy
from mistbow.streams.schemas import POINTS
from mistbow.streams.wire import Chunk, Position
from storage_agent.membership.fabric_membership import FabricMembership
from storage_agent.membership.journal import STORE
from storage_agent.replication.follower import follower as follower_module
from storage_agent.replication.follower.follower import Follower
from storage_agent.replication.follower.replica import FollowState, Replica
from storage_agent.settings import AgentSettings
from storage_agent.streams import subscription
from storage_agent.streams.columns import without_unused_words
from storage_agent.streams.compaction import Compaction, compact
from storage_agent.streams.streams import Stream, Streams
from tests.storage_agent.conftest import ManualClock
from tests.storage_agent.replication.test_source_feed import feed, times

MIB = 2**20
VALUES = pa.schema([pa.field("ts", pa.int64()), pa.field("value", pa.binary())])


async def opened(streams: Streams, clock: ManualClock, schema: pa.Schema) -> tuple[Stream, Replica]:
    """Return an empty stream with a schema, and an empty replica of the stream."""
    await streams.create("s", schema)
    await streams.create("replicas/a/s", schema)
    copy = Copy(id="1", target="b", stream="s", why="", since=0)
    return await streams.get("s"), Replica("a", copy, await streams.get("replicas/a/s"), clock)


async def test_replica_stores_segments_that_are_too_large_for_one(
    streams: Streams, clock: ManualClock
) -> None:
    source, replica = await opened(streams, clock, VALUES)
    random = np.random.default_rng(0)
    for ts, size in enumerate((3 * MIB, MIB // 2, 3 * MIB, 5 * MIB)):
        value = [[ts], [random.bytes(size)]]
        await source.writer.append(pa.record_batch(value, schema=VALUES))
    assert [rows async for rows in feed(source, replica) if rows] == [2, 1, 1]
    assert await times(replica.stream) == [0, 1, 2, 3]
    assert replica.complete


async def test_replica_stores_run_that_is_too_large_for_a_segment(
    streams: Streams, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    reduced = []

    def reduce(rows: pa.RecordBatch) -> pa.RecordBatch:
        reduced.append(rows.num_rows)
        return without_unused_words(rows)

    monkeypatch.setattr(subscription, "without_unused_words", reduce)
    source, replica = await opened(streams, clock, POINTS)
    random = np.random.default_rng(0)
    for begin in range(0, 10_000, 1_250):
        numbers = range(begin, begin + 1_250)
        columns = [
            pa.array(["m"] * 1_250).dictionary_encode(),
            pa.array([f"e{number}" for number in numbers]).dictionary_encode(),
            pa.array([random.bytes(450).hex() for _ in numbers]).dictionary_encode(),
            pa.array(numbers, pa.int64()),
            pa.array([1.0] * 1_250),
        ]
        await source.writer.append(pa.RecordBatch.from_arrays(columns, schema=POINTS))
    await compact(source.log, Compaction(range(8), 1), clock)
    assert [entry.blocks for entry in source.log.index.entries_from(0)] == [1]
    counts = [rows async for rows in feed(source, replica) if rows]
    assert sum(counts) == 10_000
    assert max(counts) == 3_750, "three segments of 1.1 MB"
    assert await times(replica.stream) == list(range(10_000))
    assert sum(reduced) <= 2 * 10_000, "each chunk begins with the size of the chunk before"


def published_state(follower: Follower, replica: Replica) -> str | None:
    """Return the state in the published fact about a replica; None: the fact has no state."""
    follower._replicas = {(replica.source, replica.copy.id): replica}
    [fact] = follower.facts()
    fields: dict[str, str] = msgspec.json.decode(msgspec.json.encode(fact))
    return fields.get("state")


async def test_chunk_that_is_too_large_is_reported_and_later_ones_are_stored(
    streams: Streams, settings: AgentSettings, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, replica = await opened(streams, clock, VALUES)
    await replica.register()
    follower = Follower(FabricMembership(settings, clock), settings.home, 0, clock)
    info = SimpleNamespace(attributes={STORE: "store"}, first=0, head=2)
    size, states = 8 * MIB, []

    async def fetch(*_: object) -> object:
        return info

    async def follow_chunks(*_: object) -> AsyncIterator[Chunk]:
        value = [[1], [np.random.default_rng(0).bytes(size)]]
        yield Chunk(pa.record_batch(value, schema=VALUES), Position(2, 5))

    monkeypatch.setattr(follower_module, "fetch", fetch)
    monkeypatch.setattr(follower_module, "follow_chunks", follow_chunks)
    monkeypatch.setattr(follower_module, "_PAUSED_S", 0)
    with capture_logs() as events:
        for _ in range(2):
            await follower._follow(replica, lambda: None)
            states.append(replica.state)
    [event] = [each for each in events if each["event"] == "replica_failed"]
    assert (event["stream"], event["position"], event["bytes"] > 8 * MIB) == ("s", 0, True)
    assert states == [FollowState.TOO_LARGE] * 2
    assert published_state(follower, replica) == str(FollowState.TOO_LARGE)
    size = MIB
    await follower._follow(replica, lambda: states.append(replica.state))
    assert states[2:] == [FollowState.FOLLOWING]
    assert published_state(follower, replica) is None
    assert await times(replica.stream) == [1]
