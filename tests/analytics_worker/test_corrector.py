"""Which late rows a corrector takes in, on real Spark over a real storage agent."""

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import SparkSession

from analytics_worker.composed import COMPOSED
from analytics_worker.correcting import corrector as corrector_module
from analytics_worker.correcting.corrector import Corrector
from analytics_worker.results import as_results
from analytics_worker.spark.library import SparkLibrary
from mistbow.client.agent import AgentClient
from mistbow.client.agent_model import Point
from mistbow.clock import system_clock
from mistbow.plan.expressions import Measure, Source, UserOperator
from mistbow.plan.fragments import Merge, Place, Whole
from mistbow.plan.nodes import Insight, Pane, Plan, Window
from mistbow.streams.results import standing
from mistbow.streams.schemas import EVENTS, RAW, RESULT_ROWS
from tests.support.waiting import eventually

WINDOWS = (Window(id="w", pane="p", size_ms=1000, every_ms=1000),)
EVER = 2**62


class InterruptedClient(AgentClient):
    """A client that lets something else happen after an append."""

    afterwards: Callable[[], Any] = staticmethod(lambda: None)

    def append(self, *args: Any, **named: Any) -> Any:
        done = super().append(*args, **named)
        self.afterwards()
        return done


class UnansweredLibrary(SparkLibrary):
    """A library whose operators of other packages give no answer for one insight."""

    def recompute_from_points(self, *args: Any) -> pa.Table:
        rows = super().recompute_from_points(*args)
        kept = rows.filter(pc.not_equal(rows["insight"], "slow")).cast(RESULT_ROWS)
        said = {"insight": "slow", "key": "", "ts": 0, "revision": 0, "computed_at": 0}
        told = {**said, "missing": "MEAN 1.0: it gave no answer within 2 s"}
        return pa.concat_tables([kept, pa.Table.from_pylist([told], RESULT_ROWS)])


def stand(agent: AgentClient, target: str, epoch: int, *rows: tuple[str, int, float]) -> None:
    """Let results stand that were told before."""
    told = [{"insight": uid, "key": "{}", "ts": ts, "value": value} for uid, ts, value in rows]
    agent.append(target, as_results(pa.Table.from_pylist(told, COMPOSED)), epoch=epoch)


def held(agent: AgentClient, target: str) -> set[tuple[str, int, float]]:
    rows = standing(agent.read(target).table).to_pylist()
    return {(row["insight"], row["ts"], row["value"]) for row in rows}


def fragment(target: str, since: int, *uids: str, metric: str = "late.metric") -> Whole:
    insights = tuple(
        Insight(uid=uid, expression=Measure("SUM", "w"), by=(), every_ms=1000, since=since)
        for uid in uids
    )
    panes = (Pane(id="p", source=Source(metric), by=(), width_ms=1000),)
    plan = Plan(insights=insights, windows=WINDOWS, panes=panes)
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


def test_what_lacks_an_answer_of_an_operator_withdraws_and_changes_nothing(
    spark: SparkSession, agent: AgentClient
) -> None:
    target = "results/unanswered"
    agent.create_stream(target, RESULT_ROWS)
    epoch = agent.claim(target).epoch
    tick = system_clock() // 1000 * 1000 - 50_000
    stand(agent, target, epoch, ("slow", tick, 7.0), ("other", tick, 7.0))
    agent.put([Point(metric="slow.metric", entity="a", ts=tick, value=2.0)])
    corrector = Corrector(UnansweredLibrary(spark, agent.url), agent)
    corrector.begin(fragment(target, tick - 1, "slow", "other", metric="slow.metric"), epoch)
    assert corrector.step(EVER)
    assert held(agent, target) == {("slow", tick, 7.0), ("other", tick, 2.0)}
    assert not corrector.step(EVER), "it is not tried for ever"


def test_an_operator_that_is_not_there_withdraws_nothing_in_a_correction(
    spark: SparkSession, agent: AgentClient
) -> None:
    target = "results/absent"
    agent.create_stream(target, RESULT_ROWS)
    epoch = agent.claim(target).epoch
    tick = system_clock() // 1000 * 1000 - 50_000
    pane = Pane(id="p", source=Source("absent.metric"), by=(), width_ms=1000, contents=("points",))
    window = Window(id="w", pane="p", size_ms=1000, every_ms=1000, contents=("points",))
    insights = tuple(
        Insight(
            uid=version,
            expression=Measure(UserOperator("TRIMMED_MEAN", version), "w"),
            by=(),
            every_ms=1000,
            since=tick - 1,
        )
        for version in ("2.0", "9.9")
    )
    stand(agent, target, epoch, ("2.0", tick, 7.0), ("9.9", tick, 7.0))
    agent.put([Point(metric="absent.metric", entity="a", ts=tick, value=2.0)])
    plan = Plan(insights=insights, windows=(window,), panes=(pane,))
    corrector = Corrector(SparkLibrary(spark, agent.url), agent)
    whole = Whole(id="a", source=Place("n1", RAW), target=Place("n1", target), plan=plan)
    corrector.begin(whole, epoch)
    assert corrector.step(EVER)
    assert held(agent, target) == {("2.0", tick, 2.0), ("9.9", tick, 7.0)}


def test_what_has_many_results_is_corrected_piece_by_piece(
    spark: SparkSession, agent: AgentClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(corrector_module, "_MOST_ROWS", 2)
    target = "results/pieces"
    agent.create_stream(target, RESULT_ROWS)
    epoch = agent.claim(target).epoch
    first = system_clock() // 1000 * 1000 - 45_000
    ticks = range(first, first + 4000, 1000)
    stand(agent, target, epoch, *(("i", tick, 7.0) for tick in ticks))
    agent.put([Point(metric="many.metric", entity="a", ts=tick, value=2.0) for tick in ticks])
    client = InterruptedClient(agent.url)
    appended: list[int] = []
    client.afterwards = lambda: appended.append(1)
    corrector = Corrector(SparkLibrary(spark, client.url), client)
    corrector.begin(fragment(target, first - 1, "i", metric="many.metric"), epoch)
    assert corrector.step(EVER)
    assert held(agent, target) == {("i", tick, 2.0) for tick in ticks}
    assert len(appended) == 2


def test_where_points_are_kept_no_more_what_stands_is_left(
    spark: SparkSession, agent: AgentClient, capsys: pytest.CaptureFixture[str]
) -> None:
    target = "results/gone"
    agent.create_stream(target, RESULT_ROWS)
    epoch = agent.claim(target).epoch
    tick = system_clock() // 1000 * 1000 - 5_400_000
    agent.put([Point(metric="gone.metric", entity="a", ts=tick, value=5.0)])
    agent.operations.change_config(streams={RAW: 1000})
    eventually(lambda: agent.info(RAW).first > 0, timeout=30, what="points go")
    agent.operations.change_config(streams={RAW: None})
    stand(agent, target, epoch, ("i", tick, 7.0))
    corrector = Corrector(SparkLibrary(spark, agent.url), agent)
    corrector.begin(fragment(target, tick - 1, "i", metric="gone.metric"), epoch)
    agent.put([Point(metric="gone.metric", entity="b", ts=tick, value=2.0)])
    eventually(lambda: not corrector.step(EVER), what="all that is late is looked at")
    assert held(agent, target) == {("i", tick, 7.0)}
    assert "too late to be corrected" in capsys.readouterr().out
