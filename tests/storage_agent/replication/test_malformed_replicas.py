"""Rows and positions of a stolen site that a replica must not store."""

from collections.abc import AsyncIterator
from contextlib import suppress

import msgspec
import pyarrow as pa
import pytest

from ignite_server.server import IgniteServer
from mistbow.client.operation_model import Copy
from mistbow.errors import UnavailableError
from mistbow.streams.events import event_rows
from mistbow.streams.schemas import EVENTS, POINTS
from mistbow.streams.wire import MAX_INT64, Chunk, ChunkDecoder, ChunkEncoder, Position
from storage_agent.ignite.client import METADATA, IgniteClient
from storage_agent.membership.fabric_membership import FabricMembership
from storage_agent.membership.facts import Facts, read_facts
from storage_agent.membership.metadata_replicas import MetadataReplica
from storage_agent.replication.follower.replica import Replica
from storage_agent.settings import AgentSettings
from storage_agent.streams.streams import Stream, Streams
from tests.storage_agent.conftest import ManualClock

NAME = "replicas/edge/metadata"
COPY = Copy(id="4f", target="cloud", stream="x", why="", since=0)
GOOD = event_rows(1, {"note": "{}"})
TS, KEY, EVENT = GOOD.columns
NULL = pa.array([None], pa.string())


def batch(*columns: pa.Array) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(list(columns), schema=EVENTS)


NULL_KEY, NULL_EVENT = batch(TS, NULL, EVENT), batch(TS, KEY, NULL)
LARGE_TIME = pa.RecordBatch.from_arrays(
    [pa.array([2**63], pa.uint64()), KEY, EVENT], names=EVENTS.names
)
NO_KEY = pa.RecordBatch.from_arrays([TS, EVENT], names=["ts", "event"])
NULL_TIME = batch(pa.array([None], pa.int64()), KEY, EVENT)
MALFORMED = {
    "null key": NULL_KEY,
    "null event": NULL_EVENT,
    "null ts": NULL_TIME,
    "ts of 2^63": LARGE_TIME,
    "no key": NO_KEY,
    "binary key": pa.RecordBatch.from_arrays(
        [TS, pa.array([b"k"]), EVENT], names=["ts", "key", "event"]
    ),
}


@pytest.fixture
async def client(ignite: IgniteServer) -> AsyncIterator[IgniteClient]:
    client = IgniteClient([("127.0.0.1", ignite.port)])
    client.start()
    assert await client.wait_connected(20)
    yield client
    await client.close()


def received(rows: pa.RecordBatch, position: int = 1) -> Chunk:
    """Return a chunk as the decoder returns it after it was received from another site."""
    encoder = ChunkEncoder(rows.schema)
    data = encoder.encode(Chunk(rows, Position(position, 0))) + encoder.close()
    [chunk] = ChunkDecoder().feed(data)
    return chunk


async def recover(client: IgniteClient, clock: ManualClock) -> Streams:
    """Return the streams of Ignite, as recovered by an agent that starts."""
    streams = Streams(client, clock, 1000)
    await streams.recover(await client.scan(METADATA))
    return streams


async def new_stream(streams: Streams, name: str, schema: pa.Schema = EVENTS) -> Stream:
    await streams.create(name, schema)
    return await streams.get(name)


async def new_replica(
    streams: Streams, clock: ManualClock, name: str = "replicas/edge/x", schema: pa.Schema = EVENTS
) -> tuple[Stream, Replica]:
    """Return the stream of a new registered replica, and the replica."""
    stream = await new_stream(streams, name, schema)
    replica = Replica("edge", COPY, stream, clock)
    await replica.register()
    return stream, replica


@pytest.mark.parametrize("rows", MALFORMED.values(), ids=MALFORMED.keys())
async def test_metadata_replica_stores_no_malformed_rows(
    client: IgniteClient, clock: ManualClock, rows: pa.RecordBatch
) -> None:
    streams = await recover(client, clock)
    stream = await new_stream(streams, NAME)
    replica = MetadataReplica(stream, Facts(), clock)
    await replica.begin("s", 9)
    await replica.add(received(GOOD))
    head = stream.log.head
    with pytest.raises(UnavailableError, match="rows that the stream cannot contain"):
        await replica.add(received(rows, 2))
    assert (stream.log.head, replica.position) == (head, 1)
    assert dict(replica.facts) == {"note": "{}"}
    await streams.close()
    streams = await recover(client, clock)
    assert dict(await read_facts(await streams.get(NAME))) == {"note": "{}"}
    await streams.close()


@pytest.mark.parametrize("rows", MALFORMED.values(), ids=MALFORMED.keys())
async def test_replica_of_a_stream_stores_no_malformed_rows(
    client: IgniteClient, clock: ManualClock, rows: pa.RecordBatch
) -> None:
    streams = await recover(client, clock)
    stream, replica = await new_replica(streams, clock)
    await replica.begin("s", 0, 9)
    await replica.add(received(GOOD))
    with pytest.raises(UnavailableError, match="rows that the stream cannot contain"):
        await replica.add(received(rows, 2))
    assert (stream.log.head, replica.position) == (1, 1)
    await streams.close()
    streams = await recover(client, clock)
    assert (await streams.get("replicas/edge/x")).log.head == 1
    await streams.close()


async def test_replica_stores_no_null_of_a_dictionary(
    client: IgniteClient, clock: ManualClock
) -> None:
    streams = await recover(client, clock)
    stream, replica = await new_replica(streams, clock, "replicas/edge/raw", POINTS)
    await replica.begin("s", 0, 9)
    words = pa.DictionaryArray.from_arrays(pa.array([0], pa.int32()), pa.array(["w", None]))
    null = pa.DictionaryArray.from_arrays(pa.array([1], pa.int32()), pa.array(["w", None]))
    rest = [pa.array([1], pa.int64()), pa.array([1.0])]
    rows = pa.RecordBatch.from_arrays([null, words, words, *rest], schema=POINTS)
    with pytest.raises(UnavailableError, match="the field metric has null values"):
        await replica.add(received(rows))
    rows = pa.RecordBatch.from_arrays([words, words, words, *rest], schema=POINTS)
    await replica.add(received(rows))
    assert (stream.log.head, replica.position) == (1, 1)
    await streams.close()


async def test_replica_rejects_impossible_positions(
    client: IgniteClient, clock: ManualClock
) -> None:
    streams = await recover(client, clock)
    _, replica = await new_replica(streams, clock)
    for first, head in ((-1, 0), (0, -1), (2**63, 0), (0, 10**30)):
        with pytest.raises(UnavailableError, match="states a position"):
            await replica.begin("s", first, head)
    await replica.begin("s", 0, 1)
    await replica.add(received(GOOD, MAX_INT64))
    await replica.begin("another store", 0, 1)  # positions begin anew
    for number in (2**63, 10**30):
        with pytest.raises(UnavailableError, match="states a position"):
            await replica.add(Chunk(GOOD, Position(number, 0)))
    with pytest.raises(UnavailableError, match="states a position"):
        await replica.add(received(GOOD, 1))
    await streams.close()
    streams = await recover(client, clock)
    log = (await streams.get("replicas/edge/x")).log
    assert (log.head, log.frontier) == (1, MAX_INT64)
    await streams.close()


@pytest.mark.parametrize("rows", [NULL_KEY, NULL_EVENT], ids=["key", "event"])
async def test_stored_rows_without_key_or_event_are_ignored(
    client: IgniteClient, clock: ManualClock, rows: pa.RecordBatch
) -> None:
    streams = await recover(client, clock)
    stream = await new_stream(streams, NAME)
    for each in (rows, GOOD):
        await stream.writer.append(each)
    assert dict(await read_facts(stream)) == {"note": "{}"}
    await streams.close()


@pytest.mark.parametrize("rows", [NO_KEY, LARGE_TIME], ids=["no key", "ts of 2^63"])
async def test_damaged_metadata_replica_is_dropped_at_a_start(
    client: IgniteClient, settings: AgentSettings, clock: ManualClock, rows: pa.RecordBatch
) -> None:
    """Earlier versions stored such rows, and then never started again."""
    streams = Streams(client, clock, 1000)
    stream = await new_stream(streams, NAME)
    with suppress(OverflowError):  # after it was stored
        await stream.writer.append(rows)
    await streams.close()
    try:
        streams = await recover(client, clock)
    except UnavailableError:
        streams = await recover(client, clock)
    membership = FabricMembership(settings, clock)
    await membership.open(streams, (), lambda _: False)
    await membership.flush()  # its tasks run now
    assert streams.find_open(NAME) is None
    assert not membership.facts_of("edge")
    await membership.close()
    await streams.create(NAME, EVENTS)  # as it is followed again
    assert (await streams.get(NAME)).log.head == 0
    await streams.close()


@pytest.mark.parametrize(
    "deletion",
    [
        {"max_ts": 10**30},
        {"min_ts": -(2**64)},
        {"columns": ["unknown"], "keys": [["a"]]},
        {"columns": ["key"], "keys": [["a"], ["a", "b"]]},
        {"columns": ["key"], "keys": [[]]},
        {"columns": [], "keys": [[]]},
        {"columns": [1]},
    ],
    ids=str,
)
async def test_replica_stores_no_malformed_deletion(
    client: IgniteClient, clock: ManualClock, deletion: dict[str, object]
) -> None:
    streams = await recover(client, clock)
    stream, replica = await new_replica(streams, clock)
    await replica.begin("s", 0, 9)
    await replica.add(received(GOOD))
    whole = {"id": 1, "before": 1, "created": 0}
    malformed = msgspec.json.encode({"last": 1, "deletions": [whole | deletion]})
    with pytest.raises(UnavailableError, match="the source sent a"):
        await replica.add(Chunk(GOOD.slice(0, 0), Position(1, 0), malformed.decode()))
    assert not stream.log.manifest.current.tombstones
    valid = msgspec.json.encode({"last": 1, "deletions": [whole | {"max_ts": 0}]})
    await replica.add(Chunk(GOOD.slice(0, 0), Position(1, 0), valid.decode()))
    assert len(stream.log.manifest.current.tombstones) == 1
    await streams.close()
    streams = await recover(client, clock)
    assert (await streams.get("replicas/edge/x")).log.head == 2  # a deletion appends a claim
    await streams.close()
