"""Evaluations of PromQL, which may last as long as their time limit, leave a thread to others."""

import asyncio
import threading
from pathlib import Path
from typing import Any, cast

import pytest

from storage_agent.promql import engine
from storage_agent.promql.engine import Query, QueryEngine
from storage_agent.promql.querier import Querier
from storage_agent.settings import AgentSettings
from storage_agent.work_threads import limit_work_threads


async def test_long_evaluations_leave_a_thread_to_other_work(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    limit_work_threads()
    begun, ends = asyncio.Event(), threading.Event()
    loop, evaluate = asyncio.get_running_loop(), engine._evaluate_once

    def evaluate_long(*arguments: Any) -> Any:
        loop.call_soon_threadsafe(begun.set)
        ends.wait(30)
        return evaluate(*arguments)

    monkeypatch.setattr(engine, "_evaluate_once", evaluate_long)
    # The queries read no samples.
    queries = QueryEngine(cast("Querier", None), AgentSettings(home=tmp_path))
    answers = [
        asyncio.ensure_future(queries.answer(Query("1 + 1", 1000, 1000), [])) for _ in range(4)
    ]
    try:
        async with asyncio.timeout(10):
            await begun.wait()
            assert await asyncio.to_thread(lambda: "other work") == "other work"
    finally:
        ends.set()
        assert all(await asyncio.gather(*answers))
