"""The limits of SQL queries: their duration, and the number of concurrent queries."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import psutil
import pytest

from mistbow.errors import InvalidRequestError, TooManyRequestsError
from storage_agent.settings import AgentSettings
from storage_agent.sql.service import SqlService
from storage_agent.sql.tables import Table
from tests.support.conditions import aeventually

ENDLESS = "SELECT count(*) FROM range(1000000000000) WHERE hash(range) = 1"


@pytest.fixture
async def sql(processes: None, tmp_path: Path) -> AsyncIterator[SqlService]:
    sql = SqlService(AgentSettings(home=tmp_path, sql_seconds=1, sql_queries=1))
    yield sql
    await sql.close()


async def no_table(_: str) -> Table | None:
    return None


async def run(sql: SqlService, query: str) -> object:
    return msgspec.json.decode(await sql.run(query, [], "json", no_table))["rows"]


async def test_endless_query_is_ended_without_blocking_the_loop(sql: SqlService) -> None:
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


async def test_queries_beyond_the_limit_wait_their_turn(sql: SqlService) -> None:
    found = await asyncio.gather(*(run(sql, ENDLESS) for _ in range(3)), return_exceptions=True)
    # One ran; the others waited for as long as a query may take.
    assert [type(each) for each in found] == [
        InvalidRequestError,
        TooManyRequestsError,
        TooManyRequestsError,
    ]


def query_processes() -> set[int]:
    """Return the ids of the running SQL processes of this test run."""
    found = set()
    for child in psutil.Process().children():
        with contextlib.suppress(psutil.Error):  # it has just ended
            if "storage_agent.sql.child" in child.cmdline():
                found.add(child.pid)
    return found


async def test_reused_process_is_idle_for_30_s_before_it_is_ended(
    processes: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sql = SqlService(AgentSettings(home=tmp_path, sql_seconds=60))
    loop, passed = asyncio.get_running_loop(), 0.0
    monotonic = loop.time
    monkeypatch.setattr(loop, "time", lambda: monotonic() + passed)
    others = query_processes()

    async def answer() -> set[int]:
        assert await run(sql, "SELECT 1") == [[1]]
        return query_processes() - others

    async def pass_time(seconds: float) -> set[int]:
        nonlocal passed
        passed += seconds
        for _ in range(3):
            await asyncio.sleep(0)
        return query_processes() - others

    async def ended() -> bool:
        return not query_processes() - others

    first = await answer()
    assert len(first) == 1
    assert await pass_time(20) == first
    assert await answer() == first
    # 35 s after the first query, and 15 s after the second.
    assert await pass_time(15) == first
    assert await answer() == first
    await pass_time(31)
    await aeventually(ended, what="the end of the idle process")
    await sql.close()
