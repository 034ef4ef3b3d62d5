"""The ticks that a corrector recomputes because of a merge's decisions about its sites."""

import uuid
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from msgspec.structs import replace
from structlog.testing import capture_logs

from analytics.plan.expressions import Measure, Source
from analytics.plan.fragments import Merge, StreamLocation
from analytics.plan.nodes import Insight, Pane, Plan, Window
from analytics_worker.late_data import late_panes
from analytics_worker.late_data.late_panes import LatePaneScanner
from analytics_worker.late_data.tick_spans import TickSpan
from analytics_worker.merge.decisions import (
    Decision,
    Forgotten,
    Joined,
    Late,
    LateSpan,
    Left,
    SiteDecision,
    row_of,
)
from mistbow.client.agent import AgentClient
from mistbow.errors import FencedError, UnavailableError
from mistbow.streams.schemas import EVENTS, RAW

PLAN = Plan(
    insights=(Insight(uid="i", expression=Measure("SUM", "w"), by=(), every_ms=5000, since=0),),
    windows=(Window(id="w", pane="p", size_ms=10_000, every_ms=5000),),
    panes=(Pane(id="p", source=Source("cpu"), by=(), width_ms=5000),),
)


class SilentSiteClient(AgentClient):
    """A client that does not read points until ``answers`` is set, as if their site was silent."""

    answers = False

    def read(self, *args: Any, **named: Any) -> Any:
        if args[0] == RAW and not self.answers:
            raise UnavailableError("the site does not answer")
        return super().read(*args, **named)


class ExpiredSiteClient(AgentClient):
    """A client of a site whose points before the position 5,000 have expired.

    ``points``: the times (ms) of the other points that are not deleted.
    """

    points: tuple[int, ...] = (12_000, 13_000)

    def info(self, name: str) -> Any:
        info = super().info(name)
        return replace(info, first=5000, head=7000, rows=2000) if name == RAW else info

    def read(self, name: str, start: int = 0, end: int | None = None, **named: Any) -> Any:
        if name != RAW:
            return super().read(name, start, end, **named)
        is_stored = end is None or end > 5000
        return SimpleNamespace(table=pa.table({"ts": pa.array(self.points * is_stored, "int64")}))


class Decisions:
    """A merge whose decisions about its sites are stored in a stream of a real agent."""

    def __init__(self, agent: AgentClient) -> None:
        self.agent = agent
        self.epoch = 0
        self.merge = Merge(
            id="g",
            sources=(StreamLocation("n1", "panes/g"),),
            target=StreamLocation("n1", "results/g"),
            decisions=StreamLocation("n1", f"decisions/{uuid.uuid4().hex[:8]}"),
            plan=PLAN,
        )
        agent.create_stream(self.merge.decisions.stream, EVENTS)

    def add(self, ts: int, site: str, what: Decision) -> None:
        stream = self.merge.decisions.stream
        self.epoch = self.agent.claim(stream).epoch  # as every new query does
        self.agent.append(stream, row_of(SiteDecision(ts, site, what)), epoch=self.epoch)

    def finder(self, start: int = 0) -> LatePaneScanner:
        return LatePaneScanner(self.agent, self.merge, start)


def test_gap_is_corrected_once_the_site_has_joined(agent: AgentClient) -> None:
    decisions = Decisions(agent)
    decisions.add(20_000, "x", Left())
    finder = decisions.finder()
    assert finder.scan(25_000) == ({}, finder.head)
    finder.move_to(finder.head)
    assert finder.scan(30_000) is None
    decisions.add(40_000, "x", Joined())
    assert finder.scan(39_999) is None
    found = finder.scan(40_000)
    assert found is not None
    assert found[0] == {"i": [TickSpan(25_000, 40_000)]}
    finder.move_to(found[1])
    assert finder.scan(50_000) is None


def test_gap_of_a_new_site_without_points_begins_where_results_name_the_site(
    agent: AgentClient,
) -> None:
    decisions = Decisions(agent)
    decisions.add(0, "n1", Left(named_after=20_000))
    decisions.add(40_000, "n1", Joined())
    found = decisions.finder().scan(40_000)
    assert found is not None
    assert found[0] == {"i": [TickSpan(25_000, 40_000)]}


def test_gap_of_a_new_site_that_does_not_answer_is_corrected_once_it_answers(
    agent: AgentClient,
) -> None:
    decisions = Decisions(agent)
    decisions.add(0, "n1", Left(named_after=20_000))
    decisions.add(40_000, "n1", Joined())
    decisions.add(40_000, "x", Late((LateSpan("p", 45_000, 45_000, 50_000),)))
    client = decisions.agent = SilentSiteClient(agent.url)
    finder = decisions.finder()
    # The site may have points at each tick, but no other correction waits for it.
    with capture_logs() as logs:
        assert finder.scan(50_000) == ({"i": [TickSpan(45_000, 45_000)]}, finder.head)
    assert [(each["event"], each["site"]) for each in logs] == [("join_unanswered", "n1")]
    assert finder.due == {"i": [TickSpan(5_000, 45_000)]}, "it has both kinds of ticks"
    finder.move_to(finder.head)
    assert finder.scan(60_000) is None
    assert finder.due == {"i": [TickSpan(5_000, 40_000)]}
    assert (finder.corrected_until, finder.processed_to) == (40_000, 0)
    client.answers = True
    assert finder.scan(60_000) == ({"i": [TickSpan(25_000, 40_000)]}, finder.head)
    assert finder.processed_to == 0, "its ticks are not corrected yet"
    finder.move_to(finder.head)
    assert (finder.corrected_until, finder.processed_to) == (60_000, finder.head)
    assert finder.scan(60_000) is None
    client.close()


@pytest.mark.parametrize(("points", "first"), [((12_000, 13_000), 15_000), ((), 1)])
def test_gap_of_a_new_site_is_corrected_although_its_first_points_have_expired(
    agent: AgentClient, points: tuple[int, ...], first: int
) -> None:
    decisions = Decisions(agent)
    decisions.add(0, "n1", Left(named_after=30_000))
    decisions.add(40_000, "n1", Joined())
    client = decisions.agent = ExpiredSiteClient(agent.url)
    client.points = points
    found = decisions.finder().scan(40_000)
    assert found is not None
    assert found[0] == {"i": [TickSpan(first, 40_000)]}
    client.close()


def test_gap_of_a_first_source_without_points_begins_at_the_first_result(
    agent: AgentClient,
) -> None:
    decisions = Decisions(agent)
    decisions.add(0, "n1", Left())
    decisions.add(40_000, "n1", Joined())
    found = decisions.finder().scan(40_000)
    assert found is not None
    assert found[0] == {"i": [TickSpan(5000, 40_000)]}


def test_join_of_a_site_that_was_removed_stops_no_correction(agent: AgentClient) -> None:
    decisions = Decisions(agent)
    decisions.add(0, "removed", Left(named_after=20_000))
    decisions.add(40_000, "removed", Joined())
    finder = decisions.finder()
    assert finder.scan(50_000) == ({"i": [TickSpan(25_000, 40_000)]}, finder.head)


def test_gap_of_a_forgotten_site_ends_uncorrected(agent: AgentClient) -> None:
    decisions = Decisions(agent)
    decisions.add(20_000, "x", Left())
    decisions.add(40_000, "x", Forgotten())
    finder = decisions.finder()
    assert finder.scan(50_000) == ({}, finder.head)
    finder.move_to(finder.head)
    assert [finder.presence.missing(tick) for tick in (40_000, 40_001)] == [("x",), ()]


def test_late_panes_touch_the_windows_that_were_closed(agent: AgentClient) -> None:
    decisions = Decisions(agent)
    decisions.add(0, "x", Late((LateSpan("p", 15_000, 15_000, 40_000),)))
    finder = decisions.finder()
    assert finder.scan(35_000) is None
    # A pane that ends at 15 s is in the windows that end at 15 s and at 20 s.
    assert finder.scan(40_000) == ({"i": [TickSpan(15_000, 20_000)]}, finder.head)
    other = Decisions(agent)
    other.add(0, "x", Late((LateSpan("of another version", 15_000, 15_000, 40_000),)))
    found = other.finder().scan(40_000)
    assert found is not None
    assert found[0] == {"i": [TickSpan(15_000, 20_000)]}


def test_query_that_starts_later_reads_the_states_before(agent: AgentClient) -> None:
    decisions = Decisions(agent)
    decisions.add(20_000, "x", Left())
    first = decisions.finder()
    assert first.scan(20_000) == ({}, first.head)
    first.move_to(first.head)
    decisions.add(40_000, "x", Joined())
    again = decisions.finder(first.next)
    found = again.scan(40_000)
    assert found is not None
    assert found[0] == {"i": [TickSpan(25_000, 40_000)]}


DECIDED: tuple[tuple[int, str, Decision], ...] = (
    (20_000, "x", Left()),
    (25_000, "y", Left()),
    (30_000, "x", Joined()),
    (35_000, "x", Late((LateSpan("p", 15_000, 15_000, 40_000),))),
    (40_000, "y", Joined()),
    (45_000, "x", Left()),
    (55_000, "x", Joined()),
)


@pytest.fixture
def each_checkpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(late_panes, "_CHECKPOINT_STEP", 1)


@pytest.mark.usefixtures("each_checkpoint")
def test_scan_from_a_checkpoint_finds_the_ticks_of_the_scan_that_stored_it(
    agent: AgentClient,
) -> None:
    for number in range(len(DECIDED) + 1):
        decisions = Decisions(agent)
        for each in DECIDED[:number]:
            decisions.add(*each)
        first = decisions.finder()
        first.scan(60_000)
        first.move_to(first.head)
        first.store_checkpoint(decisions.epoch)
        for each in DECIDED[number:]:
            decisions.add(*each)
        again = decisions.finder(first.next)
        assert again.scan(60_000) == first.scan(60_000)
        assert again.checkpointed == first.next
        for finder in (again, first):
            finder.move_to(finder.head)
        assert again.presence == first.presence
        # The decisions before the checkpoint are not processed.
        early, whole = decisions.finder(), decisions.finder()
        whole.checkpointed = 0  # it reads all decisions
        assert early.scan(60_000) == whole.scan(60_000)


@pytest.mark.usefixtures("each_checkpoint")
def test_scan_of_unprocessed_decisions_stores_no_checkpoint(agent: AgentClient) -> None:
    decisions = Decisions(agent)
    decisions.add(0, "n1", Left(named_after=20_000))
    decisions.add(40_000, "n1", Joined())
    client = decisions.agent = SilentSiteClient(agent.url)
    finder = decisions.finder()
    stream = decisions.merge.decisions.stream
    for frontier in (30_000, 50_000):  # a pending decision, then an unanswered join
        found = finder.scan(frontier)
        assert found is not None
        finder.move_to(found[1])
        finder.store_checkpoint(decisions.epoch)
        assert "checkpoint" not in agent.info(stream).attributes
    client.answers = True
    finder.scan(60_000)
    finder.move_to(finder.head)
    finder.store_checkpoint(decisions.epoch)
    assert agent.info(stream).attributes["checkpoint"]["next"] == finder.head
    client.close()


def test_checkpoints_are_stored_seldom_and_only_by_the_owner(
    agent: AgentClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(late_panes, "_CHECKPOINT_STEP", 6)
    decisions, stored = Decisions(agent), []
    finder = decisions.finder()
    for ts in range(10_000, 80_000, 10_000):  # each adds two positions
        decisions.add(ts, "x", Left())
        finder.scan(90_000)
        finder.move_to(finder.head)
        finder.store_checkpoint(decisions.epoch)
        checkpoint = agent.info(decisions.merge.decisions.stream).attributes.get("checkpoint", {})
        stored.append(checkpoint.get("next"))
    assert stored == [None, None, 6, 6, 6, 12, 12]
    finder.checkpointed = 0
    with pytest.raises(FencedError):
        finder.store_checkpoint(decisions.epoch - 1)
