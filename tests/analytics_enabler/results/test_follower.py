"""What a follower does about streams that fail."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing

import pyarrow as pa
import pytest

from analytics_enabler.deployments.model import Deployment
from analytics_enabler.results.follower import Follower
from analytics_enabler.results.positions import Since, Start, starts_of, text_of
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
    """Return the resumption text and value of the first result from a start on."""
    follower = Follower(ResultStreams(agent), lambda: followed, None, {"all.fair": start}, FOG)
    async with asyncio.timeout(LIMIT_S), aclosing(follower.results()) as results:
        async for text, row in results:
            return text, row["value"]
    raise AssertionError("it ended")


async def write(agent: AsyncAgentClient, followed: Deployment, *ticks: int) -> None:
    """Write a result for each tick, whose value is the tick."""
    (generation,) = followed.live
    await agent.create_stream("results/all.fair", RESULT_ROWS)
    for tick in ticks:
        row = {"insight": generation.uid, "key": "{}", "ts": tick, "value": tick, "revision": 0}
        rows = pa.RecordBatch.from_pylist([{**row, "computed_at": tick}], schema=RESULT_ROWS)
        await agent.append("results/all.fair", rows)


async def test_a_stream_that_was_lost_is_followed_from_its_new_beginning(
    agent: AsyncAgentClient,
) -> None:
    followed = deployment("a = COMPUTE AVG(x) EVERY 1 s")
    await write(agent, followed, 1000)
    assert await first(agent, followed, 1000) == ("all.fair=1", 1000)


async def test_a_stream_whose_head_was_not_known_is_followed_from_a_time(
    agent: AsyncAgentClient,
) -> None:
    followed = deployment("a = COMPUTE AVG(x) EVERY 1 s")
    await write(agent, followed, 1000, 100_000, 200_000)
    assert await first(agent, followed, Since(200_001)) == ("all.fair=3", 200_000)
    assert await first(agent, followed, Since(150_000)) == ("all.fair=3", 200_000)


def test_where_to_go_on_is_text_both_ways() -> None:
    starts = {"all.fair": 12, "site-x.fair": Since(1_795_278_275_000)}
    assert starts_of(text_of(starts)) == starts
    assert starts_of("") == {}


async def test_what_does_not_pass_reaches_who_follows(agent: AsyncAgentClient) -> None:
    await agent.create_stream("results/all.fair", pa.schema([("other", pa.int64())]))
    with pytest.raises(InvalidRequestError, match="has no column"):
        await first(agent, deployment("a = COMPUTE AVG(x) EVERY 1 s"), 0)
