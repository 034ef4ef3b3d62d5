"""Corrections by a corrector on real Spark over a real storage agent."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from msgspec import to_builtins
from pyspark.sql import SparkSession

from analytics.plan.expressions import Measure, Source
from analytics.plan.fragments import Merge, StreamLocation
from analytics.plan.functions import UserOperator
from analytics.plan.nodes import Insight, Pane, Plan, Window
from analytics_worker.late_data import corrector as corrector_module
from analytics_worker.late_data import late_panes
from analytics_worker.late_data.corrector import Corrector
from analytics_worker.merge.decisions import Late, LateSpan, Left, SiteDecision, row_of
from analytics_worker.merge.site_gaps import SiteGap
from analytics_worker.spark.library import SparkLibrary
from analytics_worker.streaming_library import StreamingLibrary
from mistbow.client.agent import AgentClient
from mistbow.client.agent_model import Point
from mistbow.clock import system_clock
from mistbow.streams.schemas import EVENTS, RAW, RESULT_ROWS
from tests.analytics_worker.late_data.corrections import (
    EVER,
    begun,
    current,
    fragment,
    merge,
    store,
    whole,
)
from tests.support.conditions import eventually


class InterruptedClient(AgentClient):
    """A client of an agent that calls ``afterwards``, a function of the test, after each append."""

    afterwards: Callable[[], Any] = staticmethod(lambda: None)

    def append(self, *args: Any, **named: Any) -> Any:
        done = super().append(*args, **named)
        self.afterwards()
        return done


class UnansweredLibrary(SparkLibrary):
    """A Spark library without values of the insight ``slow``, as if an operator timed out."""

    def recompute_from_points(self, *args: Any, limit: int | None = None) -> pa.Table:
        rows = super().recompute_from_points(*args, limit=limit)
        others = rows.filter(pc.not_equal(rows["insight"], "slow")).cast(RESULT_ROWS)
        empty = {"insight": "slow", "key": "", "ts": 0, "revision": 0, "computed_at": 0}
        unanswered = {**empty, "missing": "MEAN 1.0: the operator gave no answer within 2 s"}
        return pa.concat_tables([others, pa.Table.from_pylist([unanswered], RESULT_ROWS)])


class SilentAgent:
    """An agent in memory with one decision about a site; ``advance`` waits for ``answers``."""

    def __init__(self, decision: SiteDecision) -> None:
        self.url, self.decision = f"http://silent-target-{id(self)}", decision
        self.stores, self.answers = threading.Event(), threading.Event()
        self.advanced: list[tuple[str, int, dict[str, Any]]] = []

    def at(self, site: str) -> "SilentAgent":
        del site
        return self

    def info(self, stream: str) -> SimpleNamespace:
        del stream
        return SimpleNamespace(attributes={})

    def read(self, stream: str, start: int) -> SimpleNamespace:
        del stream
        rows = [row_of(self.decision)][start:]
        table = pa.Table.from_batches(rows, EVENTS)
        return SimpleNamespace(table=table, position=SimpleNamespace(next=1))

    def advance(self, stream: str, epoch: int, *, attributes: dict[str, Any]) -> None:
        self.advanced.append((stream, epoch, attributes))
        self.stores.set()
        self.answers.wait(30)


def correcting_merge(agent: SilentAgent) -> Corrector:
    """Return a corrector of a merge without a library, which can compute no results."""
    corrector = Corrector(cast("StreamingLibrary", None), cast("AgentClient", agent))
    corrector.begin(merge("silent"), epoch=1, decisions_epoch=2)
    return corrector


def test_step_that_may_not_compute_reports_which_corrections_are_due() -> None:
    late = Late((LateSpan("p", first=2000, last=3000, due=4000),))
    agent = SilentAgent(SiteDecision(1000, "x", late))
    corrector = correcting_merge(agent)
    for _ in range(2):
        assert not corrector.step(5000, may_compute=False)
        assert corrector.correcting.keys() == {"i"}
        assert corrector.ticks_due == {"i": 2}
        assert corrector.corrected_until == 1000
    assert not agent.stores.is_set()


def test_step_that_may_not_compute_stores_the_position_if_no_correction_is_due() -> None:
    agent = SilentAgent(SiteDecision(1000, "n1", Left()))
    agent.answers.set()
    corrector = correcting_merge(agent)
    assert not corrector.step(5000, may_compute=False)
    assert agent.stores.is_set()
    assert corrector.corrected_until == 5000
    assert corrector.missing_sites == {"n1": 1000}


def test_step_stores_a_checkpoint_of_the_decisions_after_the_position(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(late_panes, "_CHECKPOINT_STEP", 1)
    agent = SilentAgent(SiteDecision(1000, "x", Left()))
    agent.answers.set()
    corrector = correcting_merge(agent)
    corrector.step(5000)
    [position, checkpoint] = agent.advanced
    assert position == ("results/silent", 1, {"decided": 1})
    expected = {"checkpoint": {"next": 1, "gaps": (to_builtins(SiteGap("x", 1000, None)),)}}
    assert checkpoint == ("decisions/silent", 2, expected)


def test_status_does_not_wait_for_the_request_that_stores_the_position() -> None:
    agent = SilentAgent(SiteDecision(1000, "x", Left()))
    corrector = correcting_merge(agent)
    with ThreadPoolExecutor() as pool:
        step = pool.submit(corrector.step, 5000)
        try:
            assert agent.stores.wait(10)
            status = pool.submit(lambda: corrector.corrected_until)
            assert status.result(timeout=5) == 5000
        finally:
            agent.answers.set()
        assert not step.result()


def test_insight_that_starts_during_a_correction_misses_no_late_row(
    spark: SparkSession, agent: AgentClient, target: str, epoch: int
) -> None:
    tick = system_clock() // 1000 * 1000 - 60_000
    agent.put([Point(metric="late.metric", entity="a", ts=tick, value=2.0)])
    before, after = (fragment(target, tick - 1, *uids) for uids in (("old",), ("old", "new")))

    client = InterruptedClient(agent.url)
    corrector = begun(SparkLibrary(spark, client.url), client, before, epoch)
    client.afterwards = lambda: corrector.begin(after, epoch)
    assert corrector.step(EVER)
    client.afterwards = lambda: None
    assert corrector.step(EVER)

    assert current(agent, target) == {
        ("old", tick, 2.0),
        ("new", tick, 2.0),
    }
    assert not corrector.step(EVER)


def test_late_rows_of_a_removed_insight_do_not_block_the_corrections_of_a_merge(
    spark: SparkSession, agent: AgentClient, target: str, epoch: int
) -> None:
    decisions = StreamLocation("n1", "decisions/late-merge")
    agent.create_stream(decisions.stream, EVENTS)
    tick = system_clock() // 1000 * 1000 - 30_000
    whole = fragment(target, tick - 1, "kept", "removed")
    corrector = begun(SparkLibrary(spark, agent.url), agent, whole, epoch)
    agent.put([Point(metric="late.metric", entity="a", ts=tick, value=2.0)])
    merge = Merge(
        id="late",
        sources=(StreamLocation("n1", "panes/late-merge"),),
        target=whole.target,
        decisions=decisions,
        plan=fragment(target, tick - 1, "kept").plan,
    )
    corrector.begin(merge, epoch)
    assert corrector.step(EVER)
    assert current(agent, target) == {("kept", tick, 2.0)}
    assert corrector.correcting == corrector.ticks_due == {}
    assert not corrector.step(EVER)


def test_correction_is_due_from_the_arrival_of_a_late_point_until_results_have_it(
    spark: SparkSession, agent: AgentClient, target: str, epoch: int
) -> None:
    tick = system_clock() // 1000 * 1000 - 60_000
    corrector = begun(
        SparkLibrary(spark, agent.url), agent, fragment(target, tick - 1, "i", metric="due"), epoch
    )
    agent.put([Point(metric="due", entity="a", ts=ts, value=2.0) for ts in (tick, tick + 3000)])
    arrived = agent.info(RAW).frontier
    assert not corrector.step(tick), "later results are not computed yet"
    assert corrector.ticks_due == {"i": 4}
    assert corrector.correcting.keys() == {"i"}
    assert corrector.corrected_until <= arrived
    assert corrector.step(EVER)
    assert corrector.ticks_due == corrector.correcting == {}
    eventually(
        lambda: corrector.step(EVER) or corrector.corrected_until > arrived,
        what="the frontier moves on",
    )
    assert current(agent, target) == {("i", tick, 2.0), ("i", tick + 3000, 2.0)}


def test_late_point_of_the_last_hour_is_corrected_before_the_next_tick(
    spark: SparkSession, agent: AgentClient, target: str, epoch: int
) -> None:
    frontier = agent.info(RAW).frontier
    hours = next(each for each in (3_600_000, 3_000_000) if frontier % each > 60_000)
    tick = frontier // hours * hours
    pane = Pane(id="p", source=Source("coarse.metric"), by=(), width_ms=hours)
    window = Window(id="w", pane="p", size_ms=hours, every_ms=hours)
    insight = Insight(
        uid="i", expression=Measure("SUM", "w"), by=(), every_ms=hours, since=tick - 1
    )
    plan = Plan(insights=(insight,), windows=(window,), panes=(pane,))
    corrector = begun(SparkLibrary(spark, agent.url), agent, whole(target, plan), epoch)
    agent.put([Point(metric="coarse.metric", entity="a", ts=tick - 1000, value=2.0)])
    assert not corrector.step(tick - hours), "the tick was not computed before"
    assert corrector.step(tick)
    assert current(agent, target) == {("i", tick, 2.0)}


def test_result_without_an_operator_s_answer_is_not_corrected(
    spark: SparkSession, agent: AgentClient, target: str, epoch: int
) -> None:
    tick = system_clock() // 1000 * 1000 - 50_000
    store(agent, target, epoch, ("slow", tick, 7.0), ("other", tick, 7.0))
    agent.put([Point(metric="slow.metric", entity="a", ts=tick, value=2.0)])
    corrector = begun(
        UnansweredLibrary(spark, agent.url),
        agent,
        fragment(target, tick - 1, "slow", "other", metric="slow.metric"),
        epoch,
    )
    assert corrector.step(EVER)
    assert current(agent, target) == {("slow", tick, 7.0), ("other", tick, 2.0)}
    assert not corrector.step(EVER), "it is not tried for ever"


def test_correction_without_answers_of_an_operator_withdraws_nothing(
    spark: SparkSession, agent: AgentClient, target: str, epoch: int
) -> None:
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
    store(agent, target, epoch, ("2.0", tick, 7.0), ("9.9", tick, 7.0))
    agent.put([Point(metric="absent.metric", entity="a", ts=tick, value=2.0)])
    plan = Plan(insights=insights, windows=(window,), panes=(pane,))
    corrector = begun(SparkLibrary(spark, agent.url), agent, whole(target, plan), epoch)
    assert corrector.step(EVER)
    assert current(agent, target) == {("2.0", tick, 2.0), ("9.9", tick, 7.0)}


def test_correction_of_many_results_is_split(
    spark: SparkSession,
    agent: AgentClient,
    target: str,
    epoch: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(corrector_module, "_MAX_ROWS", 2)
    first = system_clock() // 1000 * 1000 - 45_000
    ticks = range(first, first + 4000, 1000)
    store(agent, target, epoch, *(("i", tick, 7.0) for tick in ticks))
    agent.put([Point(metric="many.metric", entity="a", ts=tick, value=2.0) for tick in ticks])
    client = InterruptedClient(agent.url)
    appended: list[int] = []
    client.afterwards = lambda: appended.append(1)
    corrector = begun(
        SparkLibrary(spark, client.url),
        client,
        fragment(target, first - 1, "i", metric="many.metric"),
        epoch,
    )
    assert corrector.step(EVER)
    assert current(agent, target) == {("i", tick, 2.0) for tick in ticks}
    assert len(appended) == 2


def test_results_whose_points_have_expired_are_not_corrected(
    spark: SparkSession,
    agent: AgentClient,
    target: str,
    epoch: int,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    tick = system_clock() // 1000 * 1000 - 5_400_000
    agent.put([Point(metric="gone.metric", entity="a", ts=tick, value=5.0)])
    agent.operations.change_config(streams={RAW: 1000})
    eventually(lambda: agent.info(RAW).first > 0, timeout=30, what="points go")
    agent.operations.change_config(streams={RAW: None})
    store(agent, target, epoch, ("i", tick, 7.0))
    corrector = begun(
        SparkLibrary(spark, agent.url),
        agent,
        fragment(target, tick - 1, "i", metric="gone.metric"),
        epoch,
    )
    agent.put([Point(metric="gone.metric", entity="b", ts=tick, value=2.0)])
    eventually(lambda: not corrector.step(EVER), what="all that is late is looked at")
    assert current(agent, target) == {("i", tick, 7.0)}
    # Other tests may have set up logging, by which events go to other places.
    captured = capsys.readouterr()
    assert "correction_rows_expired" in "".join((captured.out, captured.err, caplog.text))
