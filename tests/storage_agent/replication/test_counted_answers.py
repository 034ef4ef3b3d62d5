"""Answers to the agents of other sites that count as open subscriptions."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import ExitStack
from typing import Any

import httpx
import msgspec
import pyarrow as pa
import pytest
from fastapi import FastAPI, Request, Response

from mistbow.errors import InvalidRequestError
from mistbow.streams.wire import Chunk, Position, decode
from storage_agent.api.replication import replication_routes
from storage_agent.http.decode import decode_body
from storage_agent.replication.follower.replica_server import ReplicaPointsRequest
from storage_agent.streams.small_parts import OpenSubscriptions

SCHEMA = pa.schema([pa.field("ts", pa.int64())])
REQUEST = ReplicaPointsRequest(
    source="a",
    id="1f",
    instance="2e",
    store="3d",
    series=(("delay", "bus-7"),),
    start=0,
    end=9,
    columns=("ts",),
    reached=9,
    deleted=0,
)


class Agent:
    """An agent that records how many subscriptions are open at each chunk of its answers."""

    is_open = True

    def __init__(self) -> None:
        self.proxy = self.replication = self.copy_reader = self.replica_server = self
        self.subscriptions = OpenSubscriptions()
        self.counts: list[int] = []

    async def handle(
        self, request: Request, local: Callable[[Request], Awaitable[Response]], **_: Any
    ) -> Response:
        return await local(request)

    async def follow(self, *_: Any) -> tuple[pa.Schema, AsyncIterator[Chunk]]:
        return SCHEMA, self._chunks()

    async def points(self, _request: Any) -> tuple[pa.Schema, Chunk, AsyncIterator[Chunk]]:
        chunks = self._chunks()
        return SCHEMA, await anext(chunks), chunks

    async def _chunks(self) -> AsyncIterator[Chunk]:
        for number in range(3):
            self.counts.append(self.subscriptions._open)
            rows = pa.RecordBatch.from_arrays([pa.array([number], pa.int64())], schema=SCHEMA)
            yield Chunk(rows, Position(number + 1, 0))


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", "/replication/feed?target=b&id=1f&from=0", b""),
        ("POST", "/replication/points", msgspec.json.encode(REQUEST)),
    ],
)
async def test_answer_to_another_agent_counts_as_a_subscription_until_its_end(
    method: str, path: str, body: bytes
) -> None:
    agent: Any = Agent()
    app = FastAPI()
    app.include_router(replication_routes(agent))
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
        answer = await client.request(method, path, content=body)
    assert [chunk.rows["ts"].to_pylist() for chunk in decode(answer.content)] == [[0], [1], [2]]
    assert agent.counts == [1, 1, 1]
    assert agent.subscriptions._open == 0


@pytest.mark.parametrize("field", ["start", "end", "reached", "deleted"])
@pytest.mark.parametrize("number", [10**30, -(10**30), 2**63])
def test_number_beyond_64_bits_in_a_request_for_points_is_refused(field: str, number: int) -> None:
    body = json.dumps(msgspec.to_builtins(REQUEST) | {field: number})
    with pytest.raises(InvalidRequestError, match=field):
        decode_body(msgspec.json.Decoder(ReplicaPointsRequest), body.encode())


async def test_feed_is_not_refused_among_many_readers() -> None:
    agent: Any = Agent()
    app = FastAPI()
    app.include_router(replication_routes(agent))
    transport = httpx.ASGITransport(app)
    with ExitStack() as stack:
        for _ in range(500):
            stack.enter_context(agent.subscriptions.counted())
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            answer = await client.get("/replication/feed?target=b&id=1f&from=0")
    assert len(decode(answer.content)) == 3
