"""Random puts, deletions, merges, clock changes and restarts, compared with a small model."""

import asyncio
import tempfile
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import pytest
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from ignite_server.server import IgniteServer
from mistbow.client.agent_model import Point
from mistbow.streams.schemas import RAW
from storage_agent.agent.agent import Agent
from storage_agent.http.points import GetBody, PutBody
from storage_agent.request_key import RequestKey
from storage_agent.settings import AgentSettings
from storage_agent.streams import compaction
from storage_agent.streams.subscription import RowSelection, RowSelector, read
from tests.storage_agent.conftest import ManualClock
from tests.support.conditions import aeventually
from tests.support.ignite import empty

T = TypeVar("T")
BEGIN = 1_795_262_400_000
KEPT_MS = 30_000

offsets = st.integers(-4_000, 3_000) | st.integers(9_990, 10_010) | st.integers(10_001, 40_000)
items = st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from("xy"), offsets), max_size=5)


class AgentMachine(RuleBasedStateMachine):
    """An agent on a real Ignite, compared with a model.

    ``stored``: the points that must be stored, in the order of puts. ``came``: value -> time of its
    put (ms), at which the retention of the point begins. ``doubtful``: expired points that were
    future points; such a point may still be visible, because its retention begins when it becomes a
    row.
    """

    server: IgniteServer
    home: Path

    @initialize()
    def begin(self) -> None:
        empty(self.server)
        # An agent remembers on its own disk what Ignite had.
        self.own_home = Path(tempfile.mkdtemp(dir=self.home))
        self.loop = asyncio.new_event_loop()
        self.clock = ManualClock(BEGIN)
        self.stored: list[tuple[str, str, int, float]] = []
        self.came: dict[float, int] = {}
        self.doubtful: set[tuple[str, str, int, float]] = set()
        self.keys = 0
        self.values = 0
        self.frontier = 0
        self.run(self.start())

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.loop.run_until_complete(work)

    async def start(self) -> None:
        settings = AgentSettings(
            home=self.own_home, node="n", ignite_port=self.server.port, retention_s=KEPT_MS // 1000
        )
        self.agent = Agent(settings, self.clock)
        self.agent.start()

        async def ready() -> bool:
            return not await self.agent.waiting_for()

        await aeventually(ready)

    @rule(batch=items, repeats=st.integers(1, 2))
    def put(self, batch: list[tuple[str, str, int]], repeats: int) -> None:
        self.keys += 1
        measurements = []
        for metric, entity, offset in batch:
            self.values += 1
            point = (metric, entity, self.clock.now + offset, float(self.values))
            self.stored.append(point)
            self.came[point[3]] = self.clock.now
            measurements.append(Point(metric, entity, point[2], point[3]))
        for _ in range(repeats):
            self.run(self.agent.put(PutBody(measurements), RequestKey(f"key {self.keys}")))

    @rule(by=st.integers(0, 15_000))
    def wait(self, by: int) -> None:
        self.clock.now += by

    @rule(
        metrics=st.sets(st.sampled_from("ab"), max_size=1),
        entities=st.sets(st.sampled_from("xy"), max_size=1),
        span=st.none() | st.tuples(offsets, offsets),
    )
    def delete(self, metrics: set[str], entities: set[str], span: tuple[int, int] | None) -> None:
        start, end = (None, None) if span is None else (self.clock.now + at for at in sorted(span))
        body = GetBody(
            metricID=frozenset(metrics), entityID=frozenset(entities), start=start, end=end
        )
        self.run(self.agent.delete(body))
        self.stored = [
            point
            for point in self.stored
            if (metrics and point[0] not in metrics)
            or (entities and point[1] not in entities)
            or (start is not None and point[2] < start)
            or (end is not None and point[2] > end)
        ]

    @rule()
    def merge(self) -> None:
        self.run(self.agent.maintain_streams())

    @rule()
    def restart(self) -> None:
        self.run(self.agent.close())
        self.run(self.start())

    def expire(self) -> None:
        before = self.clock.now - KEPT_MS
        expired = {point for point in self.stored if self.came[point[3]] < before}
        self.doubtful |= {p for p in expired if p[2] > self.came[p[3]] + 10_000}
        self.stored = [point for point in self.stored if point not in expired]

    @invariant()
    def everything_is_there_once(self) -> None:
        async def values() -> list[tuple[str, str, int, float]]:
            answer = msgspec.json.decode(await self.agent.get(GetBody(latest=False)))
            found = []
            for series in answer["monitoring"][0]["data"]:
                times = [value["timestamp"] for value in series["values"]]
                assert times == sorted(times)
                for value in series["values"]:
                    named = series["metricID"], series["entityID"]
                    found.append((*named, value["timestamp"], value["val"]))
            return found

        self.expire()
        found = self.run(values())
        assert len(found) == len(set(found))
        assert set(found) - self.doubtful == set(self.stored)

    @invariant()
    def the_latest_is_the_greatest_time(self) -> None:
        self.expire()
        self.run(self.agent.checkpoint_catalogue())
        answer = msgspec.json.decode(self.run(self.agent.get(GetBody())))
        found = {
            (series["metricID"], series["entityID"]): series["values"][0]["timestamp"]
            for series in answer["monitoring"][0]["data"]
        }
        expected: dict[tuple[str, str], int] = {}
        for metric, entity, ts, _ in self.stored:
            expected[metric, entity] = max(ts, expected.get((metric, entity), 0))
        for metric, entity, _, _ in self.doubtful:
            expected.pop((metric, entity), None)
            found.pop((metric, entity), None)
        assert found == expected

    @invariant()
    def raw_has_what_is_not_ahead(self) -> None:
        """Check that ``raw`` has each due point once, and no point ahead of the clock."""

        async def settled() -> bool:
            stream = await self.agent.streams.get(RAW)
            stream.log.watch()
            rows, frontier = [], 0
            async for chunk in read(stream.log, RowSelector(stream, RowSelection()), 0):
                rows += chunk.rows.select(["metric", "entity", "ts", "value"]).to_pylist()
                assert chunk.position.frontier >= frontier
                frontier = chunk.position.frontier
            # At the head, a later read never has a smaller frontier.
            assert frontier >= self.frontier
            self.frontier = frontier
            found = [(row["metric"], row["entity"], row["ts"], row["value"]) for row in rows]
            due = {point for point in self.stored if point[2] <= self.clock.now + 10_000}
            assert len(found) == len(set(found))
            assert set(found) - self.doubtful == due
            return True

        self.run(aeventually(settled))

    def teardown(self) -> None:
        self.run(self.agent.close())
        self.loop.close()


@pytest.mark.timeout(120)
def test_agent_agrees_with_model(
    ignite_server: IgniteServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Merge what is small already.
    monkeypatch.setattr(compaction, "SEGMENTS_PER_RUN", 3)
    monkeypatch.setattr(compaction, "FAN_IN", 2)
    AgentMachine.server = ignite_server
    AgentMachine.home = tmp_path
    run_state_machine_as_test(
        AgentMachine,
        settings=hypothesis_settings(
            max_examples=8, stateful_step_count=12, deadline=None, database=None
        ),
    )
