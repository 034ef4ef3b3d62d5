"""Replicas of rows that do not fit into one segment together."""

import numpy as np
import pyarrow as pa
import pytest

from mistbow.client.operation_model import Copy
from mistbow.streams.schemas import POINTS
from storage_agent.replication.follower.replica import Replica
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
