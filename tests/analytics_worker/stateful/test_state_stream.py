"""States in a stream of a real storage agent: continued queries, and corrected states."""

import threading
import uuid
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from analytics.plan.expressions import Measure, Source
from analytics.plan.fragments import StreamLocation
from analytics.plan.nodes import Insight, Pane, Plan, Window
from analytics.plan.ticks import DAY_MS, Ticks, TimeOfDay
from analytics_enabler.optimizer import optimize
from analytics_enabler.semantics import check
from analytics_worker.evaluate.composition import compose
from analytics_worker.late_data.stateful_insights import StatefulInsights
from analytics_worker.late_data.tick_spans import TickSpan
from analytics_worker.late_data.unanswered_ticks import UnansweredTicks
from analytics_worker.merge.site_gaps import LastGaps, SiteGap
from analytics_worker.operators.accumulators import RunningCount
from analytics_worker.stateful import state_stream
from analytics_worker.stateful.accumulators import accumulators_of
from analytics_worker.stateful.state_correction import StateCorrector
from analytics_worker.stateful.state_stream import StateAccess, read_back, states_for
from mistbow.client.agent import AgentClient
from mistbow.client.agent_model import Point
from mistbow.clock import system_clock
from mistbow.streams.schemas import RAW, STATES
from tests.support.conditions import eventually
from tests.support.leases import granted
from tests.support.points import Row, points
from tests.support.windows import windows_of

SECOND = 1000
SECONDS = Ticks(SECOND)
Values = list[tuple[int, str, float]]


class StateScene:
    """An insight RUNNING_COUNT of one metric, whose points arrive step by step."""

    def __init__(
        self, agent: AgentClient, folder: Path, ticks: Ticks = SECONDS, early_ms: int = 0
    ) -> None:
        self.agent = agent
        self.metric = f"m{uuid.uuid4().hex[:8]}"
        self.step = ticks.every_ms
        self.early_ms = early_ms
        self.begin = ticks.last(system_clock() - max(600 * SECOND, 6 * self.step))
        location = StreamLocation("n1", f"states/{self.metric}")
        agent.create_stream(location.stream, STATES)
        epoch = agent.claim(location.stream).epoch
        lease = granted(agent.url, location, epoch, folder)
        self.access = StateAccess(agent.url, location, lease, str(folder / "lock"), "query")
        pane = Pane(
            id=self.metric,
            source=Source(self.metric),
            by=("entityID",),
            width_ms=SECOND,
            contents=("points",),
        )
        window = Window(
            id=self.metric,
            pane=self.metric,
            size_ms=self.step,
            every_ms=self.step,
            contents=("points",),
            start=self.begin,
            at=ticks.at,
        )
        insight = Insight(
            uid=self.metric,
            expression=Measure("RUNNING_COUNT", self.metric),
            by=("entityID",),
            every_ms=self.step,
            since=self.begin,
            at=ticks.at,
        )
        self.plan = Plan(insights=(insight,), windows=(window,), panes=(pane,))
        self.arrived: Values = []

    def tick_at(self, at: int) -> int:
        """Return the time (ms) of the tick number ``at``, which is ``at`` steps after the start."""
        return self.begin + at * self.step

    def point_at(self, at: int) -> int:
        """Return the time (ms) of a point that belongs to the tick number ``at``."""
        return self.tick_at(at) - self.early_ms

    def arrive(self, given: Values) -> None:
        """Store points, each given as (tick number, entity, value)."""
        self.arrived += given
        self.agent.put(
            [
                Point(metric=self.metric, entity=entity, ts=self.point_at(at), value=value)
                for at, entity, value in given
            ]
        )

    def compose(
        self, given: Values, access: StateAccess | None = None
    ) -> dict[tuple[str, int], float]:
        """Compute the insight over points, in one batch of a query.

        Returns (entity, tick number) -> value.
        """
        rows = [
            Row(metric=self.metric, entity=entity, ts=self.point_at(at), value=value)
            for at, entity, value in given
        ]
        windows = windows_of(points(rows), self.plan)
        first = self.tick_at(min(at for at, _, _ in given))
        with states_for(access or self.access, self.plan, first) as states:
            composed = compose(windows, self.plan, states).to_pylist()
        return {
            (row["key"][13:-2], (row["ts"] - self.begin) / self.step): row["value"]
            for row in composed
        }

    def run(self, given: Values) -> dict[tuple[str, int], float]:
        """Store points, and compute the insight; return (entity, tick number) -> value."""
        self.arrive(given)
        return self.compose(given)

    def corrector(self) -> StateCorrector:
        return StateCorrector(
            self.agent,
            (StreamLocation("n1", RAW),),
            self.plan.panes,
            accumulators_of(self.plan),
            self.access,
        )

    def correct(self, at: int, frontier: int) -> int:
        return (
            self.corrector().correct(self.tick_at(at), self.tick_at(frontier)) - self.begin
        ) // self.step

    def counts(self) -> dict[tuple[str, int], float]:
        """Return the stored counts: (entity, tick number) -> count.

        The result contains the tick of each arrived point.
        """
        (accumulator,) = accumulators_of(self.plan)
        stream = self.access.location.stream
        ledger = read_back(self.agent, stream, (accumulator,), self.begin).table
        found = {}
        for at, entity, _ in self.arrived:
            key, after = f'{{"entityID":"{entity}"}}', self.tick_at(at) + 1
            state = ledger.before(accumulator.id, key, after)
            assert isinstance(state, RunningCount)
            found[entity, at] = float(state.count)
        return found

    def right(self) -> dict[tuple[str, int], float]:
        """Return the expected counts, from all arrived points: (entity, tick number) -> count."""
        return {
            (entity, at): float(sum(e == entity and a <= at for a, e, _ in self.arrived))
            for at, entity, _ in self.arrived
        }


@pytest.fixture
def scene(agent: AgentClient, tmp_path: Path) -> StateScene:
    return StateScene(agent, tmp_path)


def test_query_continues_from_the_states_before_its_batch(scene: StateScene) -> None:
    assert scene.run([(1, "a", 5.0), (2, "a", 6.0), (2, "b", 1.0)]) == {
        ("a", 1): 1, ("a", 2): 2, ("b", 2): 1
    }  # fmt: skip
    third = scene.run([(3, "a", 7.0)])
    assert third == {("a", 3): 3}
    # It comes again: to the same process, to another one, and to another query.
    assert scene.compose([(3, "a", 7.0)]) == third
    state_stream._cached.clear()
    assert scene.compose([(3, "a", 7.0)]) == third
    other = replace(scene.access, query="other")
    assert scene.compose([(2, "a", 6.0), (2, "b", 1.0)], other) == {("a", 2): 2, ("b", 2): 1}
    assert scene.compose([(4, "a", 0.0)], other) == {("a", 4): 4}


def test_states_are_read_back_to_a_snapshot_with_idle_keys(
    scene: StateScene,
) -> None:
    scene.run([(1, "idle", 1.0), (1, "a", 1.0)])
    for start in range(2, 300, 50):
        scene.run([(at, "a", 1.0) for at in range(start, start + 50)])
    first = scene.begin + 302 * SECOND
    known = read_back(
        scene.agent, scene.access.location.stream, accumulators_of(scene.plan), first
    ).table
    (accumulator,) = accumulators_of(scene.plan)
    entry_by_key = dict(known.entries(accumulator.id))
    assert known.before(accumulator.id, '{"entityID":"idle"}', first) is not None
    assert {len(entries) for entries in entry_by_key.values()} == {1}
    state_stream._cached.clear()
    assert scene.run([(302, "idle", 1.0), (302, "a", 1.0)]) == {("idle", 302): 2, ("a", 302): 302}


def test_query_continues_from_states_corrected_for_late_points(scene: StateScene) -> None:
    scene.run([(at, "a", 1.0) for at in range(1, 70)])
    scene.run([(70, "a", 1.0), (70, "b", 1.0)])
    # Also one of a key that there was not, before the snapshot at 69.
    scene.arrive([(3, "a", 2.0), (3, "c", 2.0)])
    assert scene.correct(3, frontier=70) == 70
    assert scene.run([(71, "a", 1.0), (71, "c", 1.0)]) == {("a", 71): 72, ("c", 71): 2}
    assert scene.counts() == scene.right()
    head = scene.agent.info(scene.access.location.stream).head
    scene.correct(3, frontier=71)
    assert scene.agent.info(scene.access.location.stream).head == head  # nothing differs
    state_stream._cached.clear()
    assert scene.run([(200, "c", 1.0)]) == {("c", 200): 3}


class CountingClient(AgentClient):
    """A client of an agent that records each read of ``raw`` in ``reads``.

    A read is recorded as (requested metrics, length of the requested span of time in ms).
    """

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.reads: list[tuple[list[str], int]] = []

    def read(self, name: str, *args: Any, **named: Any) -> Any:
        if name == RAW:
            self.reads.append((named["match"]["metric"], named["max_ts"] - named["min_ts"]))
        return super().read(name, *args, **named)


def stateful_insights(
    agent: AgentClient, plan: Plan, access: StateAccess, *gaps: SiteGap
) -> StatefulInsights:
    """Return the insights of a plan over the points of the site ``n1``."""
    return StatefulInsights(
        agent, plan, access, LastGaps(gaps), lambda _: (StreamLocation("n1", RAW),)
    )


def test_states_are_corrected_where_days_end_at_a_time_of_day(
    agent: AgentClient, tmp_path: Path
) -> None:
    days = Ticks(DAY_MS, TimeOfDay(23 * 3_600_000, "-03:30"))
    scene = StateScene(agent, tmp_path, days, early_ms=DAY_MS - 1)
    scene.run([(at, entity, 1.0) for at in range(1, 5) for entity in "ab"])
    scene.arrive([(2, "a", 5.0), (3, "c", 5.0)])
    scene.agent = counting = CountingClient(agent.url)
    assert scene.correct(2, frontier=4) == 4
    counting.close()
    scene.agent = agent
    assert len(counting.reads) <= 3, "a day is not read again for each of its minutes"
    assert scene.counts() == scene.right()
    assert scene.run([(5, "a", 1.0)]) == {("a", 5): 6}


def test_frequent_insight_is_corrected_apart_from_a_daily_one(
    agent: AgentClient, tmp_path: Path
) -> None:
    days, seconds = StateScene(agent, tmp_path, Ticks(DAY_MS)), StateScene(agent, tmp_path)
    days.access = seconds.access
    days.run([(at, "a", 1.0) for at in range(1, 5)])
    seconds.run([(at, "a", 1.0) for at in range(1, 71)])
    days.arrive([(4, "a", 5.0)])
    seconds.arrive([(3, "a", 5.0)])
    plans = days.plan, seconds.plan
    plan = Plan(
        insights=tuple(each for plan in plans for each in plan.insights),
        windows=tuple(each for plan in plans for each in plan.windows),
        panes=tuple(each for plan in plans for each in plan.panes),
    )
    late = {
        scene.metric: [TickSpan(scene.tick_at(at), scene.tick_at(at))]
        for scene, at in ((days, 4), (seconds, 3))
    }
    with closing(CountingClient(agent.url)) as counting:
        corrected = stateful_insights(counting, plan, days.access).correct_states(
            late, seconds.tick_at(70), UnansweredTicks(may_wait=False)
        )
    assert {uid: spans[0].first for uid, spans in corrected.items()} == {
        uid: spans[0].first for uid, spans in late.items()
    }
    assert [corrected[scene.metric][0].last for scene in (days, seconds)] == [
        seconds.tick_at(70)
    ] * 2
    assert max(time for metrics, time in counting.reads if seconds.metric in metrics) <= 601_000
    assert days.counts() == days.right()
    assert seconds.counts() == seconds.right()


def test_states_are_corrected_only_after_a_removed_site_had_left(scene: StateScene) -> None:
    scene.run([(at, "a", 1.0) for at in range(1, 7)])
    scene.arrive([(2, "a", 5.0), (5, "a", 5.0)])
    gap = SiteGap("removed", scene.tick_at(3), scene.tick_at(4), is_removed=True)
    insights = stateful_insights(scene.agent, scene.plan, scene.access, gap)
    late = {scene.metric: [TickSpan(scene.tick_at(2), scene.tick_at(5))]}
    assert insights.correct_states(late, scene.tick_at(6), UnansweredTicks(may_wait=False)) == {
        scene.metric: [TickSpan(scene.tick_at(3) + 1, scene.tick_at(6))]
    }
    assert [scene.counts()["a", at] for at in range(1, 7)] == [1, 2, 3, 4, 6, 7]


def test_batch_during_a_correction_is_corrected_too(scene: StateScene) -> None:
    scene.run([(1, "a", 1.0), (2, "a", 1.0)])
    scene.arrive([(1, "a", 9.0), (3, "a", 1.0)])
    row = Row(metric=scene.metric, ts=scene.begin + 3 * SECOND)
    windows = windows_of(points([row]), scene.plan)
    last = []
    correcting = threading.Thread(target=lambda: last.append(scene.correct(1, frontier=2)))
    with states_for(scene.access, scene.plan, scene.begin + 3 * SECOND) as states:
        (stale,) = compose(windows, scene.plan, states).to_pylist()
        correcting.start()
        correcting.join(0.3)
        assert correcting.is_alive()  # it waits for the batch, which began before
    eventually(lambda: last, timeout=20, what="the states are corrected")
    correcting.join()
    assert stale["value"] == 3.0
    assert last == [3]  # so the batch's results are corrected as well
    assert scene.counts() == scene.right()
    assert scene.run([(4, "a", 1.0)]) == {("a", 4): 5}


def plan_of(scene: StateScene, *nodes: str) -> Plan:
    """Return a plan with one insight for each node.

    All insights begin at the start of the scene.
    """
    query = '{0} = COMPUTE RUNNING_COUNT(x) BY node WHEN node == "{0}" EVERY 1 s'
    checked = check("; ".join(map(query.format, nodes)))
    insights = tuple(each.deployed(each.name, scene.begin) for each in checked.definitions)
    return optimize(Plan(insights=insights)).plan


def counted(
    scene: StateScene, plan: Plan, rows: list[tuple[int, str]], after: int, until: int
) -> dict[tuple[str, int], float]:
    """Compute a plan as a new query does, in batches of 50 ticks.

    Returns (insight, tick number) -> value, for the tick numbers after ``after`` up to ``until``.
    ``rows``: (tick number, node) of each point.
    """
    access = replace(scene.access, query=uuid.uuid4().hex)
    found: dict[tuple[str, int], float] = {}
    for begin in range(after, until, 50):
        given = [
            Row("x", ts=scene.tick_at(at) - 1, value=1.0, attributes={"node": node})
            for at, node in rows
            if begin < at <= min(begin + 50, until)
        ]
        windows = windows_of(points(given), plan)
        with states_for(access, plan, scene.tick_at(begin + 1)) as states:
            composed = compose(windows, plan, states).to_pylist()
        found |= {(r["insight"], (r["ts"] - scene.begin) // SECOND): r["value"] for r in composed}
    return found


def test_states_continue_after_insights_of_other_keys(scene: StateScene) -> None:
    rows = [(at, node) for at in range(1, 201) for node in "ab"]
    counted(scene, plan_of(scene, "a"), rows, 0, 70)
    counted(scene, plan_of(scene, "b"), rows, 0, 150)
    last = counted(scene, plan_of(scene, "a"), rows, 0, 200)
    assert last == {("a", at): at for at in range(1, 201)}


def test_states_are_complete_for_a_key_that_is_read_later(scene: StateScene) -> None:
    # It is silent while all keys' states are written again.
    rows = [*((at, "a") for at in range(1, 241)), *((at, "b") for at in (*range(1, 101), 240))]
    counted(scene, plan_of(scene, "a"), rows, 0, 190)
    counted(scene, plan_of(scene, "a", "b"), rows, 0, 195)
    assert counted(scene, plan_of(scene, "a", "b"), rows, 195, 240)["b", 240] == 101
