"""Which late rows a corrector takes in, on real Spark over a real storage agent."""

from collections.abc import Callable
from typing import Any

from pyspark.sql import SparkSession

from analytics_worker.correcting.corrector import Corrector
from analytics_worker.spark.library import SparkLibrary
from mistbow.client.agent import AgentClient
from mistbow.client.agent_model import Point
from mistbow.clock import system_clock
from mistbow.plan.expressions import Measure, Source
from mistbow.plan.fragments import Merge, Place, Whole
from mistbow.plan.nodes import Insight, Pane, Plan, Window
from mistbow.streams.results import standing
from mistbow.streams.schemas import EVENTS, RAW, RESULT_ROWS

PANES = (Pane(id="p", source=Source("late.metric"), by=(), width_ms=1000),)
WINDOWS = (Window(id="w", pane="p", size_ms=1000, every_ms=1000),)
EVER = 2**62


class InterruptedClient(AgentClient):
    """A client that lets something else happen after an append."""

    afterwards: Callable[[], Any] = staticmethod(lambda: None)

    def append(self, *args: Any, **named: Any) -> Any:
        done = super().append(*args, **named)
        self.afterwards()
        return done


def fragment(target: str, since: int, *uids: str) -> Whole:
    insights = tuple(
        Insight(uid=uid, expression=Measure("SUM", "w"), by=(), every_ms=1000, since=since)
        for uid in uids
    )
    plan = Plan(insights=insights, windows=WINDOWS, panes=PANES)
    return Whole(id="late", source=Place("n1", RAW), target=Place("n1", target), plan=plan)


def test_an_insight_that_begins_during_a_correction_misses_no_late_row(
    spark: SparkSession, agent: AgentClient
) -> None:
    target = "results/late"
    agent.create_stream(target, RESULT_ROWS)
    epoch = agent.claim(target).epoch
    tick = system_clock() // 1000 * 1000 - 60_000
    agent.put([Point(metric="late.metric", entity="a", ts=tick, value=2.0)])
    before, after = (fragment(target, tick - 1, *uids) for uids in (("old",), ("old", "new")))

    client = InterruptedClient(agent.url)
    corrector = Corrector(SparkLibrary(spark, client.url), client)
    corrector.begin(before, epoch)
    client.afterwards = lambda: corrector.begin(after, epoch)
    assert corrector.step(EVER)
    client.afterwards = lambda: None
    assert corrector.step(EVER)

    held = standing(agent.read(target).table).to_pylist()
    assert {(row["insight"], row["ts"], row["value"]) for row in held} == {
        ("old", tick, 2.0),
        ("new", tick, 2.0),
    }
    assert not corrector.step(EVER)


def test_what_was_late_for_an_insight_that_went_as_its_group_became_a_merge_holds_up_nothing(
    spark: SparkSession, agent: AgentClient
) -> None:
    target, decisions = "results/late-merge", Place("n1", "decisions/late-merge")
    agent.create_stream(target, RESULT_ROWS)
    agent.create_stream(decisions.stream, EVENTS)
    epoch = agent.claim(target).epoch
    tick = system_clock() // 1000 * 1000 - 30_000
    whole = fragment(target, tick - 1, "kept", "removed")
    corrector = Corrector(SparkLibrary(spark, agent.url), agent)
    corrector.begin(whole, epoch)
    agent.put([Point(metric="late.metric", entity="a", ts=tick, value=2.0)])
    merge = Merge(
        id="late",
        sources=(Place("n1", "panes/late-merge"),),
        target=whole.target,
        decisions=decisions,
        plan=fragment(target, tick - 1, "kept").plan,
    )
    corrector.begin(merge, epoch)
    assert corrector.step(EVER)
    held = standing(agent.read(target).table).to_pylist()
    assert [(row["insight"], row["ts"], row["value"]) for row in held] == [("kept", tick, 2.0)]
    assert not corrector.step(EVER)


def test_what_was_late_for_the_last_hour_is_not_corrected_only_after_the_next_one(
    spark: SparkSession, agent: AgentClient
) -> None:
    target = "results/late-coarse"
    agent.create_stream(target, RESULT_ROWS)
    epoch = agent.claim(target).epoch
    frontier = agent.info(RAW).frontier
    hours = next(each for each in (3_600_000, 3_000_000) if frontier % each > 60_000)
    tick = frontier // hours * hours
    pane = Pane(id="p", source=Source("coarse.metric"), by=(), width_ms=hours)
    window = Window(id="w", pane="p", size_ms=hours, every_ms=hours)
    insight = Insight(
        uid="i", expression=Measure("SUM", "w"), by=(), every_ms=hours, since=tick - 1
    )
    plan = Plan(insights=(insight,), windows=(window,), panes=(pane,))
    place = Place("n1", RAW)
    corrector = Corrector(SparkLibrary(spark, agent.url), agent)
    corrector.begin(Whole(id="c", source=place, target=Place("n1", target), plan=plan), epoch)
    agent.put([Point(metric="coarse.metric", entity="a", ts=tick - 1000, value=2.0)])
    assert not corrector.step(tick - hours), "the tick was not told a first time"
    assert corrector.step(tick)
    held = standing(agent.read(target).table).to_pylist()
    assert [(row["ts"], row["value"]) for row in held] == [(tick, 2.0)]
