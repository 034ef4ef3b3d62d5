"""Invalid streams and rows: rejected, so that the agent continues and can restart."""

import io
import time

import httpx
import pyarrow as pa
import pytest
from pyignite import Client

from ignite_server.server import IgniteServer
from mistbow.client.agent import AgentClient
from mistbow.errors import InvalidRequestError, TooLargeError
from mistbow.streams import schemas
from mistbow.streams.schemas import RAW
from mistbow.streams.wire import encode_rows
from storage_agent.agent.agent import Agent
from storage_agent.ignite.client import METADATA, IgniteClient
from storage_agent.settings import AgentSettings
from storage_agent.streams.index import Index, IndexEntry
from tests.support.agents import running_agent
from tests.support.conditions import aeventually

SCHEMA = pa.schema([pa.field("ts", pa.int64(), nullable=False), ("word", pa.string())])

ODD_TIMES = [
    pa.list_(pa.int64()),
    pa.struct([("a", pa.int64())]),
    pa.duration("ms"),
    pa.timestamp("ms"),
    pa.dictionary(pa.int32(), pa.int64()),
    pa.uint64(),
    pa.int32(),
    pa.float64(),
    pa.string(),
]


@pytest.mark.parametrize("kind", ODD_TIMES, ids=str)
def test_create_stream_rejects_ts_of_another_type(client: AgentClient, kind: pa.DataType) -> None:
    with pytest.raises(InvalidRequestError, match="not int64") as raised:
        client.create_stream("odd", pa.schema([("ts", kind)]))
    assert raised.value.hint
    assert [stream.name for stream in client.streams()] == [schemas.METADATA, RAW]


def test_create_stream_rejects_unsupported_fields(client: AgentClient, url: str) -> None:
    union = io.BytesIO()
    schema = pa.schema([("u", pa.dense_union([pa.field("a", pa.int8())]))])
    pa.ipc.new_stream(union, schema).close()
    assert httpx.put(f"{url}/streams/odd", content=union.getvalue()).status_code == 400
    body = encode_rows(pa.table({"abcdefgh": [1]})).replace(b"abcdefgh", b"abc\xffefgh")
    assert httpx.put(f"{url}/streams/odd", content=body).status_code == 400
    assert [stream.name for stream in client.streams()] == [schemas.METADATA, RAW]


def test_stream_of_many_columns_is_read_without_delay(client: AgentClient, url: str) -> None:
    """Such a read once searched all names for each name, and took 9 s in the event loop."""
    wide = pa.table({f"c{number}": [number] for number in range(10_000)})
    client.create_stream("wide", wide.schema)
    client.append("wide", wide)
    begin = time.monotonic()
    rows = httpx.get(f"{url}/streams/wide/rows?from=0").json()["rows"]
    assert time.monotonic() - begin < 4
    assert rows == wide.to_pylist()
    httpx.delete(f"{url}/streams/wide").raise_for_status()


def test_attributes_of_a_stream_are_bounded(client: AgentClient, url: str) -> None:
    client.create_stream("noted", SCHEMA)
    half = "x" * 600_000
    client.advance("noted", attributes={"first": half})
    with pytest.raises(TooLargeError, match="attributes and retention leases"):
        client.advance("noted", attributes={"second": half})
    assert client.advance("noted", attributes={"third": 3}).attributes == {
        "first": half,
        "third": 3,
    }
    client.advance("noted", attributes={"first": None})
    client.advance("noted", attributes={"second": half})
    httpx.delete(f"{url}/streams/noted").raise_for_status()


def test_columns_of_any_type_survive_a_restart(
    settings: AgentSettings,
) -> None:
    rows = pa.table(
        {
            "list": pa.array([[1]], pa.list_(pa.int64())),
            "span": pa.array([5], pa.duration("ms")),
            "big": pa.array([2**64 - 1], pa.uint64()),
            "nothing": pa.nulls(1),
        }
    )
    for start in range(2):
        with running_agent(settings) as url:
            client = AgentClient(url)
            client.create_stream("s", rows.schema)
            client.append("s", rows)
            assert client.read("s").table.num_rows == start + 1
            client.close()


def body_of(rows: pa.Table, **options: object) -> bytes:
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, rows.schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
        writer.write_table(rows)
    return sink.getvalue()


@pytest.mark.parametrize("compression", ["zstd", "lz4"])
@pytest.mark.parametrize("encoded", [False, True])
def test_append_rejects_compressed_bodies(
    client: AgentClient, url: str, compression: str, encoded: bool
) -> None:
    client.create_stream("s", pa.schema([("word", pa.string())]))
    words = pa.array(["word" * 1000] * 10)
    rows = pa.table({"word": words.dictionary_encode() if encoded else words})
    assert httpx.post(f"{url}/streams/s", content=body_of(rows)).status_code == 200
    refused = httpx.post(f"{url}/streams/s", content=body_of(rows, compression=compression))
    assert refused.status_code == 400
    assert "compress" in refused.json()["error"]["hint"]
    assert client.info("s").head == 10


def test_append_rejects_names_that_are_not_utf8(client: AgentClient, url: str) -> None:
    rows = pa.table({"word": ["a"]})
    client.create_stream("names", rows.schema)
    body = encode_rows(rows).replace(b"word", b"\xfford")
    refused = httpx.post(f"{url}/streams/names", content=body)
    assert (refused.status_code, refused.json()["error"]["code"]) == (400, "invalid_request")


def test_append_rejects_bodies_that_grow_when_decoded(client: AgentClient, url: str) -> None:
    client.create_stream("s", pa.schema([("word", pa.string())]))
    client.create_stream("n", pa.schema([("nothing", pa.null())]))
    indices = pa.array([0] * 100_000, pa.int8())
    word = pa.DictionaryArray.from_arrays(indices, pa.array(["x" * 100_000]))
    for name, rows in (
        ("s", pa.table({"word": word})),
        ("n", pa.table([pa.nulls(2_000_000)], ["nothing"])),
    ):
        refused = httpx.post(f"{url}/streams/{name}", content=encode_rows(rows))
        assert refused.status_code == 413
        assert refused.json()["error"]["hint"]
        assert client.info(name).head == 0


@pytest.mark.parametrize(
    "body",
    [
        b'{"attributes": {"a": "\\ud800"}}',
        b'{"attributes": {"\\ud800": 1}}',
        b'{"\\ud800": 1}',
        b'{"attributes": {"a": NaN}}',
        b'{"attributes": {"a": [1180591620717411303424]}}',
        b'{"attributes": {"a": ' + b"[" * 40 + b"]" * 40 + b"}}",
        b'{"attributes": {"a": ' + b"[" * 100_000 + b"]" * 100_000 + b"}}",
        b'{"attributes": null}',
        b'{"epoch": -1}',
        b'{"frontier": 1.5}',
        b'{"colour": 1}',
        b"\xff",
        b"",
    ],
    ids=lambda body: str(body)[:60],
)
def test_advance_rejects_invalid_attributes(client: AgentClient, url: str, body: bytes) -> None:
    client.create_stream("s", SCHEMA)
    refused = httpx.patch(f"{url}/streams/s", content=body)
    assert refused.status_code == 400
    assert refused.json()["error"]["message"]
    assert client.info("s").attributes == {}


def test_routes_reject_invalid_texts(client: AgentClient, url: str) -> None:
    client.create_stream("s", SCHEMA)
    odd = "%ED%A0%80"  # a lone surrogate, and no UTF-8
    assert httpx.get(f"{url}/streams/{odd}/info").status_code == 404
    assert httpx.put(f"{url}/streams/{odd}", content=encode_rows(SCHEMA.empty_table())).is_error
    for query in (f"columns={odd}", f"match={odd}", f"match={odd}:a", f"match=ts:{odd}"):
        assert httpx.get(f"{url}/streams/s?{query}").status_code == 400
    assert httpx.get(f"{url}/streams/s?match=word:{odd}").status_code == 200
    headers = {b"Idempotency-Key": b"\xed\xa0\x80"}
    rows = encode_rows(pa.record_batch([[1], ["a"]], schema=SCHEMA))
    assert httpx.post(f"{url}/streams/s", content=rows, headers=headers).status_code == 200


async def test_failed_recovery_is_repeated(settings: AgentSettings, ignite: IgniteServer) -> None:
    # Makes the caches, if no other test did.
    own_client = IgniteClient([("127.0.0.1", ignite.port)])
    own_client.start()
    assert await own_client.wait_connected(20)
    await own_client.close()
    ignite_client = Client(timeout=10)
    with ignite_client.connect("127.0.0.1", ignite.port):
        metadata = ignite_client.get_cache(METADATA)
        metadata.put("state/raw", "rubbish")
        agent = Agent(settings)
        agent.start()

        async def waits_for(what: list[str]) -> bool:
            return await agent.waiting_for() == what

        await aeventually(lambda: waits_for(["the recovery of the streams"]))
        metadata.remove_key("state/raw")
        await aeventually(lambda: waits_for([]))
        await agent.close()


def test_index_append_of_an_oversized_integer_changes_nothing() -> None:
    index = Index()
    index.append(IndexEntry(0, 1, 1, 0, 5, 5, 0, 0, 0, 0))
    with pytest.raises(OverflowError):
        index.append(IndexEntry(1, 1, 1, 0, 5, 2**63, 0, 0, 0, 0))
    index.append(IndexEntry(1, 1, 1, 0, 7, 7, 0, 0, 0, 0))
    assert (len(index), index.head, index[1].max_ts) == (2, 2, 7)
