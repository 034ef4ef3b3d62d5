"""Queries in processes of their own: for how long, and how many at once."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from mistbow.errors import InvalidRequestError, TooManyRequestsError
from mistbow.settings import AgentSettings
from storage_agent.sql.service import Sql
from storage_agent.sql.tables import Table
from tests.support.waiting import aeventually

ENDLESS = "SELECT count(*) FROM range(1000000000000) WHERE hash(range) = 1"


@pytest.fixture
async def sql(tmp_path: Path) -> AsyncIterator[Sql]:
    sql = Sql(AgentSettings(home=tmp_path, sql_seconds=1, sql_queries=1))
    yield sql
    await sql.close()


async def no_table(_: str) -> Table | None:
    return None


async def run(sql: Sql, query: str) -> object:
    return msgspec.json.decode(await sql.run(query, [], "json", no_table))["rows"]


async def test_time_is_bounded_and_nobody_else_waits(sql: Sql) -> None:
    asking = asyncio.create_task(run(sql, ENDLESS))
    turns = 0
    while not asking.done():
        await asyncio.sleep(0.01)
        turns += 1
    with pytest.raises(InvalidRequestError, match="ended after 1 s"):
        await asking
    assert turns > 5

    async def answers() -> bool:
        try:
            return await run(sql, "SELECT 1") == [[1]]
        except InvalidRequestError:
            return False  # a second is little on a busy machine

    await aeventually(answers, what="the next query is answered")


async def test_queries_beyond_the_places_wait_their_turn(sql: Sql) -> None:
    found = await asyncio.gather(*(run(sql, ENDLESS) for _ in range(3)), return_exceptions=True)
    # One ran; the others waited for as long as a query may take.
    assert [type(each) for each in found] == [
        InvalidRequestError,
        TooManyRequestsError,
        TooManyRequestsError,
    ]
