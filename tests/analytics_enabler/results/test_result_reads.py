"""Reads of stored results, while the agent restarts and while streams are deleted."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pyarrow as pa
import pytest
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, Response, StreamingResponse

from analytics_enabler.results.selection import ResultSelection, select
from analytics_enabler.results.streams import ResultStreams
from mistbow.auth.callers import FOG
from mistbow.client.agent import AsyncAgentClient
from mistbow.errors import MistbowError, NotFoundError, UnavailableError
from mistbow.streams.schemas import RESULT_ROWS
from mistbow.streams.wire import MEDIA_TYPE, Chunk, ChunkEncoder, Position
from tests.analytics_enabler.support import deployment
from tests.support.http_server import served

END = 2


def chunks() -> Iterator[bytes]:
    """Yield the two parts and the end of an answer with one row in each part."""
    encoder = ChunkEncoder(RESULT_ROWS)
    for position in (1, END):
        row = {"insight": "a", "key": "{}", "ts": position, "value": 1.0, "revision": 0}
        rows = pa.RecordBatch.from_pylist([{**row, "computed_at": 0}], schema=RESULT_ROWS)
        yield encoder.encode(Chunk(rows, Position(position, 0)))
    yield encoder.close()


@dataclass
class Agent:
    """An agent that first raises ``errors``; ``callers``: the connections of its requests."""

    errors: list[MistbowError] = field(default_factory=list)
    is_cut: bool = False
    callers: list[object] = field(default_factory=list)

    @asynccontextmanager
    async def streams(self) -> AsyncIterator[ResultStreams]:
        """Serve the streams of this agent."""
        app = FastAPI()

        @app.get("/streams/{name:path}")
        async def read(request: Request) -> Response:
            self.callers.append(request.client)
            if self.errors:
                error = self.errors.pop(0)
                return JSONResponse(error.body(), error.status)
            return StreamingResponse(self._body(), media_type=MEDIA_TYPE)

        with served(app) as url:
            client = AsyncAgentClient(url)
            try:
                yield ResultStreams(client, lambda: "")
            finally:
                await client.close()

    async def _body(self) -> AsyncIterator[bytes]:
        for part in chunks():
            yield part
            if self.is_cut:
                raise RuntimeError("the agent stops")


@pytest.fixture
def selection() -> ResultSelection:
    return select(deployment("a = COMPUTE AVG(x) EVERY 1 s"), None, FOG)


async def test_read_is_repeated_while_the_agent_restarts(selection: ResultSelection) -> None:
    ((group, part),) = selection.groups.items()
    agent = Agent([UnavailableError("busy"), UnavailableError("busy")])
    async with agent.streams() as streams:
        assert (await streams.rows(group, part, 0, None, END)).num_rows == 2
        agent.errors += [UnavailableError("busy")] * 3
        with pytest.raises(UnavailableError, match="busy"):
            await streams.rows(group, part, 0, None, END)


async def test_read_of_a_stream_that_was_deleted_meanwhile_is_empty(
    selection: ResultSelection,
) -> None:
    ((group, part),) = selection.groups.items()
    async with Agent([NotFoundError("the stream does not exist")]).streams() as streams:
        assert (await streams.rows(group, part, 0, None, END)).equals(RESULT_ROWS.empty_table())


async def test_reads_use_one_connection(selection: ResultSelection) -> None:
    ((group, part),) = selection.groups.items()
    agent = Agent()
    async with agent.streams() as streams:
        for _ in range(3):
            await streams.rows(group, part, 0, None, END)
    assert len(agent.callers) == 3
    assert len(set(agent.callers)) == 1


async def test_read_of_an_answer_that_was_cut_raises_unavailable(
    selection: ResultSelection,
) -> None:
    ((group, part),) = selection.groups.items()
    agent = Agent(is_cut=True)
    async with agent.streams() as streams:
        with pytest.raises(UnavailableError, match="does not answer"):
            await streams.rows(group, part, 0, None, END)
    assert len(agent.callers) == 1
