"""Reads of results by result followers, also while the streams of results fail."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any, cast

import pyarrow as pa
import pytest
from structlog.testing import capture_logs

from analytics_enabler.deployments.model import Deployment
from analytics_enabler.groups import Group
from analytics_enabler.results import follower
from analytics_enabler.results.cursor import Cursor, Since, Start, decode_cursor
from analytics_enabler.results.follower import ResultFollower
from analytics_enabler.results.selection import select
from analytics_enabler.results.streams import ResultStreams, SiteUnreachableError
from mistbow.auth.callers import FOG
from mistbow.client.agent import AsyncAgentClient
from mistbow.errors import (
    ConflictError,
    InvalidRequestError,
    NotFoundError,
    UnavailableError,
)
from mistbow.streams.schemas import RESULT_ROWS
from mistbow.streams.wire import Chunk, Position
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
    reader = ResultFollower(
        ResultStreams(agent, lambda: "b"), lambda: followed, None, {"all.fair": start}, FOG
    )
    async with asyncio.timeout(LIMIT_S), aclosing(reader.results()) as results:
        async for text, row in results:
            return text, row["value"]
    raise AssertionError("it ended")


async def write(
    agent: AsyncAgentClient, followed: Deployment, *ticks: int, revision: int = 0, lag: int = 0
) -> None:
    """Append one result for each tick (ms), with the tick as its value, computed ``lag`` later."""
    await agent.create_stream("results/all.fair", RESULT_ROWS)
    for tick in ticks:
        await agent.append("results/all.fair", result_at(followed, tick, revision, lag))


def result_at(followed: Deployment, tick: int, revision: int = 0, lag: int = 0) -> pa.RecordBatch:
    (generation,) = followed.live
    row = {"insight": generation.uid, "key": "{}", "ts": tick, "value": tick, "revision": revision}
    return pa.RecordBatch.from_pylist([{**row, "computed_at": tick + lag}], schema=RESULT_ROWS)


async def test_follower_restarts_at_beginning_of_lost_stream(
    agent: AsyncAgentClient,
) -> None:
    followed = deployment("a = COMPUTE AVG(x) EVERY 1 s")
    await write(agent, followed, 1000)
    assert await first(agent, followed, Position(1000, 0)) == ("b/all.fair=1@0", 1000)


class FailingAgent:
    """An agent whose streams fail with each of the errors once, and then have one chunk of rows."""

    def __init__(self, errors: list[Exception], rows: pa.RecordBatch) -> None:
        self._errors = errors
        self._rows = rows
        self.starts: list[int] = []

    async def follow(self, _: str, start: int, **__: Any) -> AsyncIterator[Chunk]:
        self.starts.append(start)
        if self._errors:
            raise self._errors.pop(0)
        yield Chunk(self._rows, Position(start + 1, 0))
        await asyncio.Event().wait()


async def test_follower_reads_again_after_errors_and_logs_one_of_each_class(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(follower, "RETRY_S", 0.001)
    followed = deployment("a = COMPUTE AVG(x) EVERY 1 s")
    errors = [
        NotFoundError("no rows yet"),
        UnavailableError("away"),
        UnavailableError("away"),
        SiteUnreachableError("edge"),
        ConflictError("lost store"),
    ]
    agent = FailingAgent([*errors], result_at(followed, 1000))
    with capture_logs() as logs:
        found = await first(cast("AsyncAgentClient", agent), followed, Position(7, 0))
    assert found == ("b/all.fair=1@0", 1000)
    assert agent.starts == [7] * len(errors) + [0]
    assert [(each["event"], each.get("error"), each["group"]) for each in logs] == [
        ("result_stream_failed", "away", "all.fair"),
        ("result_stream_failed", "edge", "all.fair"),
        ("result_stream_failed", "lost store", "all.fair"),
        ("result_stream_recovered", None, "all.fair"),
    ]


async def test_follower_raises_an_error_that_no_retry_resolves() -> None:
    followed = deployment("a = COMPUTE AVG(x) EVERY 1 s")
    agent = FailingAgent([InvalidRequestError("wrong")], result_at(followed, 1000))
    with pytest.raises(InvalidRequestError, match="wrong"):
        await first(cast("AsyncAgentClient", agent), followed, Position(7, 0))


async def test_follower_of_unknown_head_starts_at_time(
    agent: AsyncAgentClient,
) -> None:
    followed = deployment("a = COMPUTE AVG(x) EVERY 1 s")
    await write(agent, followed, 1000, 100_000, 200_000)
    assert await first(agent, followed, Since(200_001)) == ("b/all.fair=3@0", 200_000)
    assert await first(agent, followed, Since(150_000)) == ("b/all.fair=3@0", 200_000)


async def test_follower_at_another_site_skips_recomputed_results_but_no_correction(
    agent: AsyncAgentClient,
) -> None:
    followed = deployment("a = COMPUTE AVG(x) EVERY 1 s")
    (generation,) = followed.live
    groups = [generation.group]
    cursor = str(Cursor("a", {generation.group.id: Position(7, 700_000)}))
    found: list[int] = []
    # The client connects again after each result, while the results are computed again.
    for expected in (400_001, 700_001, 400_000):
        starts = decode_cursor(cursor).starts_at("b", groups)
        reader = ResultFollower(
            ResultStreams(agent, lambda: "b"), lambda: followed, None, starts, FOG
        )
        async with asyncio.timeout(LIMIT_S), aclosing(reader.results()) as results:
            reading = asyncio.create_task(anext(results))
            if not found:
                await write(agent, followed, 1000, 400_000, 400_001)
            elif len(found) == 1:
                assert starts[generation.group.id] == Since(700_000, is_recomputed=True)
                # The result is repeated, since the new enabler has not caught up.
                assert (await reading)[1]["ts"] == 400_001
                reading = asyncio.create_task(anext(results))
                await agent.advance("results/all.fair", frontier=700_000)
                await write(agent, followed, 700_001)
            else:
                await write(agent, followed, 400_000, revision=1)
            cursor, row = await reading
            assert row["ts"] == expected
            found.append(row["ts"])


def test_positions_are_valid_only_at_the_site_of_their_streams() -> None:
    every_site, one_site = Group(scope=None, scheduler="fair"), Group(scope="x", scheduler="fair")
    starts: dict[str, Start] = {
        every_site.id: Position(12, 1_795_278_275_000),
        one_site.id: Position(5, 1_795_278_270_000),
    }
    groups = [every_site, one_site]
    cursor = Cursor("a", starts)
    assert cursor.starts_at("a", groups) == starts
    assert cursor.starts_at("b", groups) == {
        **starts,
        every_site.id: Since(1_795_278_275_000, is_recomputed=True),
    }


def test_cursor_survives_round_trip() -> None:
    starts: dict[str, Start] = {
        "all.fair": Position(12, 1_795_278_276_000),
        "site-x.fair": Since(1_795_278_275_000),
    }
    starts["all.latency"] = Since(1_795_278_275_000, is_recomputed=True)
    for cursor in (Cursor("edge-1", starts), Cursor("", starts), Cursor("edge-1", {})):
        assert decode_cursor(str(cursor)) == cursor
    assert decode_cursor("") == Cursor("", {})


def test_cursor_of_an_earlier_version_is_read() -> None:
    assert decode_cursor("all.fair=12,site-x.fair@7").starts == {
        "all.fair": Position(12, 0),
        "site-x.fair": Since(7),
    }


async def test_results_that_lag_are_read_by_the_time_of_their_computation(
    agent: AsyncAgentClient,
) -> None:
    followed = deployment("a = COMPUTE AVG(x) EVERY 1 s")
    ((group, part),) = select(followed, None, FOG).groups.items()
    ticks = range(400_000, 500_000, 1000)
    await write(agent, followed, *ticks, lag=60_000)
    streams = ResultStreams(agent, lambda: "b")
    found = await streams.computed_since(group, part, Since(525_000))
    # The last 10 s before the time are repeated.
    assert found["ts"].to_pylist() == [tick for tick in ticks if tick + 60_000 >= 515_000]


async def test_follower_raises_permanent_error(agent: AsyncAgentClient) -> None:
    await agent.create_stream("results/all.fair", pa.schema([("other", pa.int64())]))
    with pytest.raises(InvalidRequestError, match="has no column"):
        await first(agent, deployment("a = COMPUTE AVG(x) EVERY 1 s"), Position(0, 0))
