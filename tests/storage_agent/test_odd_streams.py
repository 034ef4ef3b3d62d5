"""Streams and rows that no one should make: refused, so that the agent goes on and starts again."""

import io

import httpx
import pyarrow as pa
import pytest
from pyignite import Client

from mistbow.client.agent import AgentClient
from mistbow.errors import InvalidRequestError
from mistbow.ignite.server import IgniteServer
from mistbow.settings import AgentSettings
from mistbow.streams.schemas import RAW
from mistbow.streams.wire import encode_rows
from storage_agent.agent import Agent
from storage_agent.ignite_client import METADATA, _cache_settings
from storage_agent.index import Entry, Index
from tests.support.agents import running_agent
from tests.support.waiting import aeventually

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
def test_a_time_that_is_no_int64_is_refused(client: AgentClient, kind: pa.DataType) -> None:
    with pytest.raises(InvalidRequestError, match="not int64") as raised:
        client.create_stream("odd", pa.schema([("ts", kind)]))
    assert raised.value.hint
    assert [stream.name for stream in client.streams()] == [RAW]


def test_fields_that_cannot_be_kept_are_refused(client: AgentClient, url: str) -> None:
    union = io.BytesIO()
    schema = pa.schema([("u", pa.dense_union([pa.field("a", pa.int8())]))])
    pa.ipc.new_stream(union, schema).close()
    assert httpx.put(f"{url}/streams/odd", content=union.getvalue()).status_code == 400
    body = encode_rows(pa.table({"abcdefgh": [1]})).replace(b"abcdefgh", b"abc\xffefgh")
    assert httpx.put(f"{url}/streams/odd", content=body).status_code == 400
    assert [stream.name for stream in client.streams()] == [RAW]


def test_all_other_columns_may_be_of_any_type_and_survive_a_restart(
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


async def test_what_cannot_be_recovered_is_tried_again(
    settings: AgentSettings, ignite: IgniteServer
) -> None:
    ignite_client = Client(timeout=10)
    with ignite_client.connect("127.0.0.1", ignite.port):
        metadata = ignite_client.get_or_create_cache(dict(_cache_settings(METADATA)))
        metadata.put("state/raw", "rubbish")
        agent = Agent(settings)
        agent.start()

        async def waits_for(what: list[str]) -> bool:
            return await agent.waiting_for() == what

        await aeventually(lambda: waits_for(["the streams to be recovered"]))
        metadata.remove_key("state/raw")
        await aeventually(lambda: waits_for([]))
        await agent.close()


def test_an_entry_that_does_not_fit_leaves_the_index_as_it_was() -> None:
    index = Index()
    index.append(Entry(0, 1, 1, 0, 5, 5, 0, 0, 0, 0))
    with pytest.raises(OverflowError):
        index.append(Entry(1, 1, 1, 0, 5, 2**63, 0, 0, 0, 0))
    index.append(Entry(1, 1, 1, 0, 7, 7, 0, 0, 0, 0))
    assert (len(index), index.head, index[1].max_ts) == (2, 2, 7)
