"""Reads of results by result followers, also while the streams of results fail."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing

import pyarrow as pa
import pytest

from analytics_enabler.deployments.model import Deployment
from analytics_enabler.results.cursor import Since, Start, decode_cursor, encode_cursor
from analytics_enabler.results.follower import ResultFollower
from analytics_enabler.results.streams import ResultStreams
from mistbow.auth.callers import FOG
from mistbow.client.agent import AsyncAgentClient
from mistbow.errors import InvalidRequestError
from mistbow.streams.schemas import RESULT_ROWS
from tests.analytics_enabler.support import deployment

LIMIT_S = 20


@pytest.fixture
async def agent(agent_url: str) -> AsyncIterator[AsyncAgentClient]:
    client = AsyncAgentClient(agent_url)
    yield client
    await client.close()


async def first(agent: AsyncAgentClient, followed: Deployment, start: Start) -> tuple[str, float]:
    """Return the cursor and the value of the first result that a result follower reads.

    The result follower starts at ``start``.
    """
    follower = ResultFollower(
        ResultStreams(agent), lambda: followed, None, {"all.fair": start}, FOG
    )
    async with asyncio.timeout(LIMIT_S), aclosing(follower.results()) as results:
        async for text, row in results:
            return text, row["value"]
    raise AssertionError("it ended")


async def write(agent: AsyncAgentClient, followed: Deployment, *ticks: int) -> None:
    """Append one result for each tick (ms), with the tick as its value."""
    (generation,) = followed.live
    await agent.create_stream("results/all.fair", RESULT_ROWS)
    for tick in ticks:
        row = {"insight": generation.uid, "key": "{}", "ts": tick, "value": tick, "revision": 0}
        rows = pa.RecordBatch.from_pylist([{**row, "computed_at": tick}], schema=RESULT_ROWS)
        await agent.append("results/all.fair", rows)


async def test_follower_restarts_at_beginning_of_lost_stream(
    agent: AsyncAgentClient,
) -> None:
    followed = deployment("a = COMPUTE AVG(x) EVERY 1 s")
    await write(agent, followed, 1000)
    assert await first(agent, followed, 1000) == ("all.fair=1", 1000)


async def test_follower_of_unknown_head_starts_at_time(
    agent: AsyncAgentClient,
) -> None:
    followed = deployment("a = COMPUTE AVG(x) EVERY 1 s")
    await write(agent, followed, 1000, 100_000, 200_000)
    assert await first(agent, followed, Since(200_001)) == ("all.fair=3", 200_000)
    assert await first(agent, followed, Since(150_000)) == ("all.fair=3", 200_000)


def test_cursor_survives_round_trip() -> None:
    starts = {"all.fair": 12, "site-x.fair": Since(1_795_278_275_000)}
    assert decode_cursor(encode_cursor(starts)) == starts
    assert decode_cursor("") == {}


async def test_follower_raises_permanent_error(agent: AsyncAgentClient) -> None:
    await agent.create_stream("results/all.fair", pa.schema([("other", pa.int64())]))
    with pytest.raises(InvalidRequestError, match="has no column"):
        await first(agent, deployment("a = COMPUTE AVG(x) EVERY 1 s"), 0)
