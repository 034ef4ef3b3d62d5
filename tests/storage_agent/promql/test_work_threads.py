"""Evaluations of PromQL, which may last as long as their time limit, leave a thread to others."""

import asyncio
import threading
from pathlib import Path
from typing import Any, Self, cast

import pytest

from mistbow.fabric import Fabric, Site
from storage_agent.membership.facts import Facts
from storage_agent.membership.proxy import UNREACHABLE, UnreachableSite
from storage_agent.promql import engine
from storage_agent.promql.engine import Query, QueryEngine
from storage_agent.promql.label_index import LabelIndex
from storage_agent.promql.querier import Querier, Sources
from storage_agent.series import series_key
from storage_agent.settings import AgentSettings
from storage_agent.work_threads import limit_work_threads


class Membership:
    """A membership with an unreachable site ``b``, which the event loop may change at any time."""

    def __init__(self) -> None:
        self.threads = {threading.current_thread()}

    def fabric(self) -> Fabric:
        self.threads.add(threading.current_thread())
        return Fabric(site="a", sites=(Site(name="b", node="n", url="", reachable=False),))

    def facts_of(self, _site: str) -> Facts:
        self.threads.add(threading.current_thread())
        facts = Facts()
        facts[series_key(("cpu", "vm1"))] = '{"metricID": "cpu", "entityID": "vm1", "group": "g"}'
        return facts

    @property
    def membership(self) -> Self:
        return self


async def test_labels_of_unreachable_site_are_read_by_the_event_loop(tmp_path: Path) -> None:
    sources = Membership()
    index = LabelIndex(
        cast("Sources", sources), AgentSettings(home=tmp_path), cast("Querier", None)
    )
    token = UNREACHABLE.set(UnreachableSite("b", "it is away"))
    try:
        [labels] = await index.label_sets(0, [])
    finally:
        UNREACHABLE.reset(token)
    assert ("group", "g") in labels
    assert sources.threads == {threading.current_thread()}


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
