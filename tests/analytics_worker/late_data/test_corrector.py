"""Corrections by a corrector on real Spark over a real storage agent."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import SparkSession

from analytics.plan.expressions import Measure, Source
from analytics.plan.fragments import Fragment, Merge, StreamLocation, Whole
from analytics.plan.functions import UserOperator
from analytics.plan.nodes import Insight, Pane, Plan, Window
from analytics_worker.evaluate.insight_values import INSIGHT_VALUES
from analytics_worker.evaluate.results import as_results
from analytics_worker.late_data import corrector as corrector_module
from analytics_worker.late_data.corrector import Corrector
from analytics_worker.merge.decisions import (
    Forgotten,
    Late,
    LateSpan,
    Left,
    SiteDecision,
    row_of,
)
from analytics_worker.operators.accumulators import RunningCount
from analytics_worker.spark.library import SparkLibrary
from analytics_worker.stateful.accumulators import accumulators_of, as_json
from analytics_worker.stateful.state_stream import StateAccess, append_states
from analytics_worker.stateful.state_table import StateEntry
from mistbow.client.agent import AgentClient
from mistbow.client.agent_model import Point
from mistbow.clock import system_clock
from mistbow.errors import UnavailableError
from mistbow.streams.results import current_results
from mistbow.streams.schemas import EVENTS, PANES, RAW, RESULT_ROWS, STATES
from tests.support.conditions import eventually
from tests.support.leases import granted

WINDOWS = (Window(id="w", pane="p", size_ms=1000, every_ms=1000),)
EVER = 2**62
CLOSED = "http://127.0.0.1:1"
"""An address at which no service listens."""


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


class CutClient(AgentClient):
    """A client of an agent for which the stream ``cut`` is at a site that does not answer.

    An empty name: all sites answer. Otherwise the site ``far`` does not answer either. ``asked``:
    the streams for which these sites were asked.
    """

    cut = ""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.asked: list[str] = []

    def info(self, stream: str) -> Any:
        if self.cut and (stream == self.cut or self._site == "far"):
            self.asked.append(stream)
            raise UnavailableError("the site far does not answer")
        return super().info(stream)


class CutLibrary(SparkLibrary):
    """A Spark library whose processes find no agent when they read the stream ``cut``.

    An empty name: all streams can be read. ``asked``: the stream for each of these reads.
    """

    cut = ""

    def __init__(self, session: SparkSession, url: str) -> None:
        super().__init__(session, url)
        self.asked: list[str] = []

    def recompute_from_panes(self, sources: Sequence[StreamLocation], *args: Any) -> pa.Table:
        if self.cut in [source.stream for source in sources]:
            self.asked.append(self.cut)
            return SparkLibrary(self._session, CLOSED).recompute_from_panes(sources, *args)
        return super().recompute_from_panes(sources, *args)


def store(agent: AgentClient, target: str, epoch: int, *rows: tuple[str, int, float]) -> None:
    """Store results (insight, tick in ms, value) of earlier ticks in the stream ``target``."""
    values = [{"insight": uid, "key": "{}", "ts": ts, "value": value} for uid, ts, value in rows]
    agent.append(target, as_results(pa.Table.from_pylist(values, INSIGHT_VALUES)), epoch=epoch)


def current(agent: AgentClient, target: str) -> set[tuple[str, int, float]]:
    rows = current_results(agent.read(target).table).to_pylist()
    return {(row["insight"], row["ts"], row["value"]) for row in rows}


def fragment(target: str, since: int, *uids: str, metric: str = "late.metric") -> Whole:
    insights = tuple(
        Insight(uid=uid, expression=Measure("SUM", "w"), by=(), every_ms=1000, since=since)
        for uid in uids
    )
    panes = (Pane(id="p", source=Source(metric), by=(), width_ms=1000),)
    plan = Plan(insights=insights, windows=WINDOWS, panes=panes)
    return whole(target, plan)


def whole(target: str, plan: Plan) -> Whole:
    return Whole(
        id="late", source=StreamLocation("n1", RAW), target=StreamLocation("n1", target), plan=plan
    )


def begun(library: SparkLibrary, agent: AgentClient, first: Fragment, epoch: int) -> Corrector:
    """Return a corrector that has begun to correct a fragment."""
    corrector = Corrector(library, agent)
    corrector.begin(first, epoch)
    return corrector


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


def merge_of_two_sites(
    agent: AgentClient,
    target: str,
    name: str,
    ticks: range,
    late: tuple[int, ...],
    left_at: int | None = None,
) -> Merge:
    """Return a merge whose sites ``n1`` and ``far`` have stored a pane (sum 2) at each tick (ms).

    The panes of ``n1`` at the ticks ``late`` were late. ``left_at``: when ``far`` left (ms); None:
    before the last late tick.
    """
    sources = (
        StreamLocation("n1", f"panes/{name}.n1"),
        StreamLocation("n1", f"panes/{name}.far", origin="far"),
    )
    sums = {"count": 1, "sum": 2.0, "min": 2.0, "max": 2.0}
    rows = [{"pane": "p", "key": "{}", "ts": tick, "due": tick, **sums} for tick in ticks]
    for source in sources:
        agent.create_stream(source.stream, PANES)
        epoch = agent.claim(source.stream).epoch
        agent.append(source.stream, pa.Table.from_pylist(rows, PANES), epoch=epoch)
        attributes = {"begin": ticks.start - 2000}
        agent.advance(source.stream, epoch, frontier=ticks[-1], attributes=attributes)
    decisions = StreamLocation("n1", f"decisions/{name}")
    agent.create_stream(decisions.stream, EVENTS)
    epoch = agent.claim(decisions.stream).epoch
    spans = [Late((LateSpan("p", tick, tick, tick + 1),)) for tick in late]
    made = [
        *(SiteDecision(tick, "n1", span) for tick, span in zip(late[:-1], spans, strict=False)),
        SiteDecision(left_at or late[-1] - 500, "far", Left()),
        SiteDecision(late[-1], "n1", spans[-1]),
    ]
    for decision in made:
        agent.append(decisions.stream, row_of(decision), epoch=epoch)
    plan = fragment(target, ticks.start - 1, "i").plan
    return Merge(
        id=name,
        sources=sources,
        target=StreamLocation("n1", target),
        decisions=decisions,
        plan=plan,
    )


def correct_while_a_site_is_cut(
    agent: AgentClient, target: str, epoch: int, name: str, client: CutClient, library: CutLibrary
) -> None:
    """Correct a merge while its site ``far`` is cut, and again when the site is back.

    ``client`` or ``library`` is cut from the stream ``panes/NAME.far``.
    """
    first = system_clock() // 1000 * 1000 - 30_000
    ticks = range(first, first + 6000, 1000)
    merge = merge_of_two_sites(agent, target, name, ticks, (ticks[3], ticks[4]))
    store(agent, target, epoch, *(("i", tick, 7.0) for tick in ticks))
    corrector = Corrector(library, client)
    corrector.begin(merge, epoch)
    for _ in range(2):
        corrector.step(EVER)
        assert current(agent, target) == {
            ("i", tick, 2.0 if tick == ticks[4] else 7.0) for tick in ticks
        }
    assert corrector.ticks_due == {"i": 1}
    assert corrector.corrected_until <= ticks[3]
    assert agent.info(target).attributes.get("decided", 0) == 0, "it would not be read again"
    client.cut = library.cut = ""
    assert corrector.step(EVER)
    assert not corrector.step(EVER)
    values = {ticks[3]: 4.0, ticks[4]: 2.0}
    assert current(agent, target) == {("i", tick, values.get(tick, 7.0)) for tick in ticks}
    assert corrector.ticks_due == {}
    assert corrector.corrected_until > ticks[4]
    assert agent.info(target).attributes["decided"] > 2
    client.close()


def test_correction_waits_only_at_ticks_at_which_a_silent_site_was_present(
    spark: SparkSession, agent: AgentClient, target: str, epoch: int
) -> None:
    client = CutClient(agent.url)
    client.cut = "panes/waits.far"
    library = CutLibrary(spark, agent.url)
    correct_while_a_site_is_cut(agent, target, epoch, "waits", client, library)


def test_correction_waits_for_a_site_that_does_not_answer_the_engine(
    spark: SparkSession, agent: AgentClient, target: str, epoch: int
) -> None:
    library = CutLibrary(spark, agent.url)
    library.cut = "panes/waits-engine.far"
    client = CutClient(agent.url)
    correct_while_a_site_is_cut(agent, target, epoch, "waits-engine", client, library)


def ask_once_in_a_step(
    agent: AgentClient, target: str, epoch: int, name: str, client: CutClient, library: CutLibrary
) -> None:
    """Correct a merge in which ten ticks wait for its site ``far``, and one does not.

    ``client`` or ``library`` is cut from the stream ``panes/NAME.far``.
    """
    first = system_clock() // 1000 * 1000 - 300_000
    ticks = range(first, first + 11 * 20_000, 20_000)
    merge = merge_of_two_sites(agent, target, name, ticks, tuple(ticks))
    store(agent, target, epoch, *(("i", tick, 7.0) for tick in ticks))
    corrector = Corrector(library, client)
    corrector.begin(merge, epoch)
    for steps in (1, 2):
        corrector.step(EVER)
        assert client.asked + library.asked == [f"panes/{name}.far"] * steps
        assert current(agent, target) == {
            ("i", tick, 2.0 if tick == ticks[-1] else 7.0) for tick in ticks
        }
    assert corrector.ticks_due == {"i": 10}
    client.close()


def test_silent_site_is_asked_once_in_a_step_and_delays_no_other_tick(
    spark: SparkSession, agent: AgentClient, target: str, epoch: int
) -> None:
    client = CutClient(agent.url)
    client.cut = "panes/asked.far"
    library = CutLibrary(spark, agent.url)
    ask_once_in_a_step(agent, target, epoch, "asked", client, library)


def test_site_that_does_not_answer_the_engine_is_read_once_in_a_step(
    spark: SparkSession, agent: AgentClient, target: str, epoch: int
) -> None:
    library = CutLibrary(spark, agent.url)
    library.cut = "panes/read-once.far"
    client = CutClient(agent.url)
    ask_once_in_a_step(agent, target, epoch, "read-once", client, library)


def test_states_wait_for_a_silent_site_without_stopping_other_corrections(
    spark: SparkSession, agent: AgentClient, target: str, epoch: int, tmp_path: Path
) -> None:
    first = system_clock() // 1000 * 1000 - 30_000
    ticks = range(first, first + 6000, 1000)
    merge = merge_of_two_sites(agent, target, "states-wait", ticks, (ticks[4],))
    decisions = merge.decisions.stream
    late = SiteDecision(ticks[3], "n1", Late((LateSpan("q", ticks[3], ticks[3], ticks[3] + 1),)))
    agent.append(decisions, row_of(late), epoch=agent.claim(decisions).epoch)
    sums, counts = merge.plan, counting_plan("waiting.metric", first)
    plan = Plan(
        insights=(*sums.insights, *counts.insights),
        windows=(*sums.windows, *counts.windows),
        panes=(*sums.panes, *counts.panes),
    )
    store(agent, target, epoch, *(("i", tick, 7.0) for tick in ticks))
    client = CutClient(agent.url)
    client.cut = "panes/states-wait.far"
    corrector = Corrector(SparkLibrary(spark, client.url), client)
    access = access_to(agent, "states/states-wait", tmp_path)
    corrector.begin(msgspec.structs.replace(merge, plan=plan), epoch, access=access)
    for _ in range(2):
        corrector.step(ticks[-1])
        assert ("i", ticks[4], 2.0) in current(agent, target)
    assert corrector.ticks_due == {"count": 1}
    assert agent.info(target).attributes.get("decided", 0) == 0, "it would not be read again"
    client.close()


def test_result_with_points_of_a_removed_site_is_not_corrected(
    spark: SparkSession, agent: AgentClient, target: str, epoch: int
) -> None:
    first = system_clock() // 1000 * 1000 - 30_000
    ticks = range(first, first + 6000, 1000)
    merge = merge_of_two_sites(agent, target, "removed", ticks, (ticks[3], ticks[4]))
    decisions = merge.decisions.stream
    forgotten = SiteDecision(ticks[4] + 500, "far", Forgotten())
    agent.append(decisions, row_of(forgotten), epoch=agent.claim(decisions).epoch)
    store(agent, target, epoch, *(("i", tick, 7.0) for tick in ticks))
    client = CutClient(agent.url)
    corrector = Corrector(SparkLibrary(spark, client.url), client)
    corrector.begin(msgspec.structs.replace(merge, sources=merge.sources[:1]), epoch)
    assert corrector.step(EVER)
    rows = current_results(agent.read(target).table).to_pylist()
    assert {(row["ts"], row["value"], row["missing"]) for row in rows} == {
        (tick, *((2.0, "far") if tick == ticks[4] else (7.0, None))) for tick in ticks
    }
    assert not corrector.step(EVER)
    client.close()


def test_states_with_points_of_a_removed_site_are_not_corrected(
    spark: SparkSession, agent: AgentClient, target: str, epoch: int, tmp_path: Path
) -> None:
    first = system_clock() // 1000 * 1000 - 30_000
    ticks = range(first, first + 6000, 1000)
    merge = merge_of_two_sites(
        agent, target, "removed-states", ticks, (ticks[2],), left_at=ticks[4]
    )
    decisions = merge.decisions.stream
    forgotten = SiteDecision(ticks[5], "far", Forgotten())
    agent.append(decisions, row_of(forgotten), epoch=agent.claim(decisions).epoch)
    plan = counting_plan("counted.metric", first)
    access = access_to(agent, "states/removed-states", tmp_path)
    (accumulator,) = accumulators_of(plan)
    of_both_sites = [
        (accumulator.id, "{}", StateEntry(tick, 0, as_json(RunningCount(2 * number))))
        for number, tick in enumerate(ticks, 1)
    ]
    append_states(agent, access, of_both_sites, 0)
    head = agent.info(access.location.stream).head
    agent.put([Point(metric="counted.metric", entity="a", ts=ticks[2], value=2.0)])
    corrector = Corrector(SparkLibrary(spark, agent.url), agent)
    later = msgspec.structs.replace(merge, sources=merge.sources[:1], plan=plan)
    corrector.begin(later, epoch, access=access)
    corrector.step(ticks[-1])
    assert not corrector.step(ticks[-1])
    assert corrector.ticks_due == {}
    assert agent.info(access.location.stream).head == head


def counting_plan(metric: str, first: int) -> Plan:
    """Return a plan with a RUNNING_COUNT of a metric; ``first``: the first tick (ms)."""
    pane = Pane(id="q", source=Source(metric), by=(), width_ms=1000, contents=("points",))
    window = Window(
        id="c", pane="q", size_ms=1000, every_ms=1000, contents=("points",), start=first - 1000
    )
    insight = Insight(
        uid="count", expression=Measure("RUNNING_COUNT", "c"), by=(), every_ms=1000, since=first - 1
    )
    return Plan(insights=(insight,), windows=(window,), panes=(pane,))


def access_to(agent: AgentClient, states: str, folder: Path) -> StateAccess:
    """Create a stream of states, and return the access to it."""
    location = StreamLocation("n1", states)
    agent.create_stream(states, STATES)
    lease = granted(agent.url, location, agent.claim(states).epoch, folder)
    return StateAccess(agent.url, location, lease, str(folder / "lock"))


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
