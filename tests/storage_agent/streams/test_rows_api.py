"""Rows as JSON and as server-sent events."""

import asyncio
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from itertools import chain
from typing import Any

import httpx
import pyarrow as pa
import pytest

from ignite_server.server import IgniteServer
from mistbow.client.agent import AgentClient, AsyncAgentClient
from mistbow.clock import system_clock
from mistbow.errors import ConflictError, InvalidRequestError, NotFoundError
from storage_agent.settings import AgentSettings
from tests.storage_agent.conftest import ManualClock
from tests.support.agents import running_agent
from tests.support.conditions import eventually
from tests.support.ignite import empty

SCHEMA = pa.schema([pa.field("ts", pa.int64(), nullable=False), ("word", pa.string())])


@pytest.fixture(scope="module")
def agent(
    ignite_server: IgniteServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[AgentClient]:
    empty(ignite_server)
    home = tmp_path_factory.mktemp("agent")
    settings = AgentSettings(home=home, node="n1", ignite_port=ignite_server.port)
    with running_agent(settings, ManualClock(system_clock())) as url:
        client = AgentClient(url)
        yield client
        client.close()


def rows(start: int, stop: int) -> pa.Table:
    words = ["even" if ts % 2 == 0 else "odd" for ts in range(start, stop)]
    return pa.table({"ts": range(start, stop), "word": words}, schema=SCHEMA)


@pytest.fixture(scope="module")
def words(agent: AgentClient) -> str:
    """Create a stream of ten commits of ten rows, and a last position without a row.

    Returns the name of the stream.
    """
    agent.create_stream("words", SCHEMA)
    for begin in range(0, 100, 10):
        agent.append("words", rows(begin, begin + 10))
    agent.claim("words")
    return "words"


def pages(agent: AgentClient, name: str, limit: int, **more: Any) -> list[list[int]]:
    found, start = [], 0
    while True:
        page = agent.rows(name, start, limit=limit, **more)
        found.append([row["ts"] for row in page.rows])
        if page.next == page.head:
            return found
        assert page.next > start
        start = page.next


def test_pages_and_events_of_large_rows_are_bounded(agent: AgentClient) -> None:
    """A page of 1,000 rows with lists took gigabytes."""
    agent.create_stream("large", SCHEMA)
    for begin in range(0, 24, 4):
        words = ["x" * 2**20] * 4
        table = pa.table({"ts": range(begin, begin + 4), "word": words}, schema=SCHEMA)
        agent.append("large", table)
    found = pages(agent, "large", 1000)
    assert [ts for page in found for ts in page] == list(range(24))
    assert max(map(len, found)) <= 17
    assert len(found) <= 3


def test_pages_of_rows_are_complete(agent: AgentClient, words: str) -> None:
    page = agent.rows(words, 5, 8)
    assert page.rows == [
        {"ts": 5, "word": "odd"},
        {"ts": 6, "word": "even"},
        {"ts": 7, "word": "odd"},
    ]
    assert (page.next, page.head) == (8, 101)
    found = pages(agent, words, 7)
    assert [len(each) for each in found] == [7] * 14 + [2]
    assert list(chain(*found)) == list(range(100))


def test_pages_of_selected_rows_are_complete(agent: AgentClient, words: str) -> None:
    found = pages(agent, words, 20, match={"word": "odd"}, columns=["ts"])
    assert list(chain(*found)) == list(range(1, 100, 2))
    assert max(len(each) for each in found) <= 20
    assert len(found) <= 6
    assert pages(agent, words, 20, min_ts=98) == [[98, 99]]


def test_rows_route_rejects_invalid_requests(agent: AgentClient, words: str) -> None:
    for path in ("rows?limit=0", "rows?limit=1000000", "rows?from=-1", "rows?match=x"):
        assert httpx.get(f"{agent.url}/streams/{words}/{path}").status_code == 400
    with pytest.raises(NotFoundError):
        agent.rows("nothing")
    with pytest.raises(NotFoundError):
        next(agent.events("nothing"))
    with pytest.raises(ConflictError):
        agent.rows(words, 1000)
    with pytest.raises(ConflictError):
        next(agent.events(words, 1000))
    with pytest.raises(InvalidRequestError, match="colour"):
        next(agent.events(words, columns=["colour"]))
    for name in ("a/rows", "a/events"):
        with pytest.raises(InvalidRequestError, match="ends in a reserved word"):
            agent.create_stream(name, SCHEMA)
    odd = {"Last-Event-ID": "soon"}
    assert httpx.get(f"{agent.url}/streams/{words}/events", headers=odd).status_code == 400


def test_rows_encode_values_without_a_json_number_as_text(agent: AgentClient) -> None:
    table = pa.table(
        {
            "big": pa.array([2**53 + 1]),
            "nan": pa.array([float("nan")]),
            "price": pa.array([Decimal("1.50")]),
            "blob": pa.array([b"\x00z"]),
            "at": pa.array([datetime(2026, 1, 1, tzinfo=UTC)]),
            "far": pa.array([4 * 10**11], pa.timestamp("s")),
            "many": pa.array([[1.0, float("inf")]]),
            "none": pa.array([None], pa.string()),
        }
    )
    agent.create_stream("odd", table.schema)
    agent.append("odd", table)
    [row] = agent.rows("odd").rows
    assert row.pop("far") == "14645-06-30 15:06:40"
    assert row == {
        "big": str(2**53 + 1),
        "nan": "NaN",
        "price": "1.50",
        "blob": "AHo=",
        "at": "2026-01-01T00:00:00Z",
        "many": [1.0, "+Inf"],
        "none": None,
    }


def test_events_resume_after_the_last_event_id(agent: AgentClient, words: str) -> None:
    events = agent.events(words, 95)
    found = [next(events) for _ in range(5)]
    events.close()
    assert [(event.row["ts"], event.next) for event in found] == [
        (ts, ts + 1) for ts in range(95, 100)
    ]

    agent.create_stream("live", SCHEMA)
    seen: list[int] = []

    def follow() -> None:
        for event in agent.events("live", 0):
            seen.append(event.next)
            if event.row["ts"] == 19:
                return

    following = threading.Thread(target=follow)
    following.start()
    agent.append("live", rows(0, 10))
    eventually(lambda: len(seen) == 10, what="the first rows came")
    agent.append("live", rows(10, 20))
    following.join(30)
    assert seen == list(range(1, 21))

    headers = {"Last-Event-ID": "17"}
    with httpx.stream("GET", f"{agent.url}/streams/live/events", headers=headers) as response:
        assert response.headers["content-type"].startswith("text/event-stream")
        lines = response.iter_lines()
        assert [next(lines) for _ in range(3)] == [
            "id: 18",
            "event: row",
            'data: {"ts":17,"word":"odd"}',
        ]


def test_events_without_a_position_begin_at_the_head(agent: AgentClient) -> None:
    agent.create_stream("later", SCHEMA)
    agent.append("later", rows(0, 5))
    with httpx.stream("GET", f"{agent.url}/streams/later/events") as response:
        lines = response.iter_lines()
        # The position comes before any row.
        assert next(line for line in lines if line.startswith("event: ")) == "event: position"
        agent.append("later", rows(5, 6))
        assert next(line for line in lines if "word" in line) == 'data: {"ts":5,"word":"odd"}'


async def test_stalled_readers_do_not_delay_others(agent: AgentClient) -> None:
    many = AsyncAgentClient(agent.url)
    await many.create_stream("big", SCHEMA)
    await many.append("big", rows(0, 20_000))
    async with httpx.AsyncClient(base_url=agent.url, timeout=30) as http:
        path = "/streams/big/events?from=0"
        requests = [http.build_request("GET", path) for _ in range(10)]
        slow = await asyncio.gather(*(http.send(each, stream=True) for each in requests))
        assert {each.status_code for each in slow} == {200}
        count = 0
        async for event in many.events("big", 0):
            count += 1
            if event.next == 20_000:
                break
        assert count == 20_000
        await asyncio.gather(*(each.aclose() for each in slow))
    await many.close()
