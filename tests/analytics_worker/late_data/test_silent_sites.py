"""Corrections of merges whose sites do not answer, or were removed, on real Spark."""

from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from analytics.plan.fragments import Merge, StreamLocation
from analytics.plan.nodes import Plan
from analytics_worker.evaluate.insight_values import INSIGHT_VALUES
from analytics_worker.evaluate.results import as_results
from analytics_worker.late_data.corrector import Corrector
from analytics_worker.late_data.stored_results import with_missing_sites
from analytics_worker.merge.decisions import (
    Forgotten,
    Joined,
    Late,
    LateSpan,
    Left,
    SiteDecision,
    row_of,
)
from analytics_worker.operators.accumulators import RunningCount
from analytics_worker.spark.library import SparkLibrary
from analytics_worker.stateful.accumulators import accumulators_of, as_json
from analytics_worker.stateful.state_stream import append_states
from analytics_worker.stateful.state_table import StateEntry
from mistbow.client.agent import AgentClient
from mistbow.client.agent_model import Point
from mistbow.clock import system_clock
from mistbow.errors import UnavailableError
from mistbow.streams.results import current_results
from mistbow.streams.schemas import EVENTS, PANES, RAW
from tests.analytics_worker.late_data.corrections import (
    EVER,
    access_to,
    counting_plan,
    current,
    fragment,
    store,
)

CLOSED = "http://127.0.0.1:1"
"""An address at which no service listens."""


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


class NewSiteClient(AgentClient):
    """A client for which the points of a new site cannot be read yet.

    ``first``: the time (ms) of the first point, once they can be read.
    """

    first: int | None = None

    def read(self, *args: Any, **named: Any) -> Any:
        if args[0] != RAW:
            return super().read(*args, **named)
        if self.first is None:
            raise UnavailableError("the new site does not answer")
        return SimpleNamespace(table=pa.table({"ts": [self.first]}))


CUT: dict[str, Callable[[CutClient, CutLibrary], CutClient | CutLibrary]] = {
    "agent": lambda client, _: client,
    "engine": lambda _, library: library,
}
"""Who asks the site that does not answer: the corrector's client of the agent, or Spark."""


def decide(agent: AgentClient, stream: str, *decisions: SiteDecision) -> None:
    """Append decisions to a stream, which is created if it does not exist."""
    agent.create_stream(stream, EVENTS)
    epoch = agent.claim(stream).epoch
    for decision in decisions:
        agent.append(stream, row_of(decision), epoch=epoch)


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
    spans = [Late((LateSpan("p", tick, tick, tick + 1),)) for tick in late]
    decide(
        agent,
        decisions.stream,
        *(SiteDecision(tick, "n1", span) for tick, span in zip(late[:-1], spans, strict=False)),
        SiteDecision(left_at or late[-1] - 500, "far", Left()),
        SiteDecision(late[-1], "n1", spans[-1]),
    )
    plan = fragment(target, ticks.start - 1, "i").plan
    return Merge(
        id=name,
        sources=sources,
        target=StreamLocation("n1", target),
        decisions=decisions,
        plan=plan,
    )


@pytest.mark.parametrize("asks", CUT)
def test_correction_waits_only_at_ticks_at_which_a_silent_site_was_present(
    spark: SparkSession, agent: AgentClient, target: str, epoch: int, asks: str
) -> None:
    name = f"waits-{asks}"
    client, library = CutClient(agent.url), CutLibrary(spark, agent.url)
    CUT[asks](client, library).cut = f"panes/{name}.far"
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
    assert corrector.searched_until > ticks[4]
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


@pytest.mark.parametrize("asks", CUT)
def test_silent_site_is_asked_once_in_a_step_and_delays_no_other_tick(
    spark: SparkSession, agent: AgentClient, target: str, epoch: int, asks: str
) -> None:
    """Ten ticks of a merge wait for its site ``far``, and one does not."""
    name = f"asked-{asks}"
    client, library = CutClient(agent.url), CutLibrary(spark, agent.url)
    CUT[asks](client, library).cut = f"panes/{name}.far"
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


def test_states_wait_for_a_silent_site_without_stopping_other_corrections(
    spark: SparkSession, agent: AgentClient, target: str, epoch: int, tmp_path: Path
) -> None:
    first = system_clock() // 1000 * 1000 - 30_000
    ticks = range(first, first + 6000, 1000)
    merge = merge_of_two_sites(agent, target, "states-wait", ticks, (ticks[4],))
    late = SiteDecision(ticks[3], "n1", Late((LateSpan("q", ticks[3], ticks[3], ticks[3] + 1),)))
    decide(agent, merge.decisions.stream, late)
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


def test_join_of_a_new_site_is_corrected_from_its_first_point_once_it_answers(
    spark: SparkSession, agent: AgentClient, target: str, epoch: int
) -> None:
    first = system_clock() // 1000 * 1000 - 30_000
    ticks = range(first, first + 6000, 1000)
    merge = merge_of_two_sites(agent, target, "new-site", ticks, (ticks[4],))
    decisions = StreamLocation("n1", "decisions/new-site.joins")
    left = SiteDecision(0, "n1", Left(named_after=ticks[3]))
    decide(agent, decisions.stream, left, SiteDecision(ticks[4], "n1", Joined()))
    store(agent, target, epoch, *(("i", tick, 7.0) for tick in ticks))
    client = NewSiteClient(agent.url)
    corrector = Corrector(SparkLibrary(spark, client.url), client)
    corrector.begin(msgspec.structs.replace(merge, decisions=decisions), epoch)
    for _ in range(2):
        corrector.step(EVER)
        assert current(agent, target) == {("i", tick, 7.0) for tick in ticks}
        assert corrector.ticks_due == {"i": 5}
        assert corrector.corrected_until <= ticks[4]
        assert agent.info(target).attributes.get("decided", 0) == 0, "it would not be read again"
    client.first = ticks[3]
    assert corrector.step(EVER)
    assert not corrector.step(EVER)
    assert current(agent, target) == {
        ("i", tick, 4.0 if tick in ticks[3:5] else 7.0) for tick in ticks
    }
    assert corrector.ticks_due == {}
    assert corrector.corrected_until > ticks[4]
    assert agent.info(target).attributes["decided"] > 2
    client.close()


def test_correction_before_a_new_site_joins_names_it_only_where_its_join_is_corrected(
    spark: SparkSession, agent: AgentClient, target: str, epoch: int
) -> None:
    first = system_clock() // 1000 * 1000 - 30_000
    ticks = range(first, first + 6000, 1000)
    merge = merge_of_two_sites(agent, target, "named", ticks, (ticks[4],))
    decisions = StreamLocation("n1", "decisions/named.joins")
    late = [
        SiteDecision(tick, "far", Late((LateSpan("p", tick, tick, tick + 1),)))
        for tick in (ticks[1], ticks[4])
    ]
    decide(agent, decisions.stream, SiteDecision(0, "n1", Left(named_after=ticks[3])), *late)
    store(agent, target, epoch, *(("i", tick, 7.0) for tick in ticks))
    client = NewSiteClient(agent.url)
    client.first = ticks[4]
    corrector = Corrector(SparkLibrary(spark, client.url), client)
    corrector.begin(msgspec.structs.replace(merge, decisions=decisions), epoch)
    for value, missing in ((2.0, "n1"), (4.0, None)):
        assert corrector.step(EVER)
        rows = current_results(agent.read(target).table).to_pylist()
        # The ticks between two late ones are computed together with these.
        corrected = dict.fromkeys(ticks[1:4], (2.0, None)) | {ticks[4]: (value, missing)}
        assert {row["ts"]: (row["value"], row["missing"]) for row in rows} == {
            tick: corrected.get(tick, (7.0, None)) for tick in ticks
        }
        decide(agent, decisions.stream, SiteDecision(ticks[4], "n1", Joined()))
    client.close()


def test_result_with_points_of_a_removed_site_is_not_corrected(
    spark: SparkSession, agent: AgentClient, target: str, epoch: int
) -> None:
    first = system_clock() // 1000 * 1000 - 30_000
    ticks = range(first, first + 6000, 1000)
    merge = merge_of_two_sites(agent, target, "removed", ticks, (ticks[3], ticks[4]))
    decide(agent, merge.decisions.stream, SiteDecision(ticks[4] + 500, "far", Forgotten()))
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


def test_uncertain_result_is_corrected_only_if_it_names_the_removed_site(
    spark: SparkSession, agent: AgentClient, target: str, epoch: int
) -> None:
    first = system_clock() // 1000 * 1000 - 30_000
    ticks = range(first, first + 7000, 1000)
    late = ticks[1], ticks[3], ticks[5]
    merge = merge_of_two_sites(agent, target, "uncertain", ticks, late, left_at=ticks[6])
    removed = Forgotten(after=ticks[6], uncertain=((ticks[2], ticks[6]),))
    decide(agent, merge.decisions.stream, SiteDecision(ticks[6] + 500, "far", removed))
    missing = {tick: ["far"] if tick in ticks[3:5] else [] for tick in ticks}
    for tick in ticks:
        values = [{"insight": "i", "key": "{}", "ts": tick, "value": 7.0}]
        rows = as_results(pa.Table.from_pylist(values, INSIGHT_VALUES))
        agent.append(target, with_missing_sites(rows, missing[tick]), epoch=epoch)
    client = CutClient(agent.url)
    corrector = Corrector(SparkLibrary(spark, client.url), client)
    corrector.begin(msgspec.structs.replace(merge, sources=merge.sources[:1]), epoch)
    assert corrector.step(EVER)
    results = current_results(agent.read(target).table).to_pylist()
    # The ticks between the late ones are computed together with these.
    assert {row["ts"]: (row["value"], row["missing"]) for row in results} == {
        tick: (2.0, "far") if tick in ticks[3:5] else (7.0, None) for tick in ticks
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
    decide(agent, merge.decisions.stream, SiteDecision(ticks[5], "far", Forgotten()))
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
