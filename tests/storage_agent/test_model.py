"""Random puts, deletions, merges, clock moves and restarts against a model of a few lines."""

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

from mistbow.ignite.server import IgniteServer
from mistbow.settings import AgentSettings
from mistbow.streams.schemas import RAW
from storage_agent.agent import Agent
from storage_agent.monitoring.bodies import GetBody, Measurement, PutBody
from storage_agent.streams import compaction
from storage_agent.streams.reading import Selection, Selector, read
from tests.storage_agent.conftest import HeldClock
from tests.support.ignite import empty
from tests.support.waiting import aeventually

T = TypeVar("T")
BEGIN = 1_795_262_400_000
KEPT_MS = 30_000

offsets = st.integers(-4_000, 3_000) | st.integers(9_990, 10_010) | st.integers(10_001, 40_000)
items = st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from("xy"), offsets), max_size=5)


class AgentMachine(RuleBasedStateMachine):
    """An agent on a real Ignite; ``stored`` is every point that must be there, in order.

    ``came``: when each was put, for points expire by that. ``doubtful`` are expired points that
    waited ahead of the clock: those that were released in time came again then.
    """

    server: IgniteServer
    home: Path

    @initialize()
    def begin(self) -> None:
        empty(self.server)
        # An agent remembers on its own disk what Ignite had.
        self.own_home = Path(tempfile.mkdtemp(dir=self.home))
        self.loop = asyncio.new_event_loop()
        self.clock = HeldClock(BEGIN)
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
            measurements.append(Measurement(entity, metric, point[3], point[2]))
        for _ in range(repeats):
            self.run(self.agent.put(PutBody(measurements), f"key {self.keys}"))

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
        self.run(self.agent.keep_streams())

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
        self.run(self.agent.keep_catalogue())
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
        """Each row once, none ahead of the clock, and all that are due soon."""

        async def settled() -> bool:
            stream = await self.agent.streams.get(RAW)
            stream.log.ask()
            rows, frontier = [], 0
            async for chunk in read(stream.log, Selector(stream, Selection()), 0):
                rows += chunk.rows.select(["metric", "entity", "ts", "value"]).to_pylist()
                assert chunk.position.frontier >= frontier
                frontier = chunk.position.frontier
            # At the head, whoever reads again is never told less.
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
def test_an_agent_agrees_with_the_model(
    ignite_server: IgniteServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Merge what is small already.
    monkeypatch.setattr(compaction, "COMMITS", 3)
    monkeypatch.setattr(compaction, "FAN_IN", 2)
    AgentMachine.server = ignite_server
    AgentMachine.home = tmp_path
    run_state_machine_as_test(
        AgentMachine,
        settings=hypothesis_settings(
            max_examples=8, stateful_step_count=12, deadline=None, database=None
        ),
    )
