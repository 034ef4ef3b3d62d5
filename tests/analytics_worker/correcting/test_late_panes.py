"""What decisions make a corrector compute again, read from a real agent."""

import uuid

from analytics_worker.correcting.late_panes import LatePanes
from analytics_worker.correcting.spans import Span
from analytics_worker.merging.decisions import (
    Decided,
    Decision,
    Forgotten,
    Joined,
    Late,
    LateSpan,
    Left,
    as_row,
)
from mistbow.client.agent import AgentClient
from mistbow.plan.expressions import Measure, Source
from mistbow.plan.fragments import Merge, Place
from mistbow.plan.nodes import Insight, Pane, Plan, Window
from mistbow.streams.schemas import EVENTS

PLAN = Plan(
    insights=(Insight(uid="i", expression=Measure("SUM", "w"), by=(), every_ms=5000, since=0),),
    windows=(Window(id="w", pane="p", size_ms=10_000, every_ms=5000),),
    panes=(Pane(id="p", source=Source("cpu"), by=(), width_ms=5000),),
)


class Decisions:
    """A stream of decisions at a real agent."""

    def __init__(self, agent: AgentClient) -> None:
        self.agent = agent
        self.merge = Merge(
            id="g",
            sources=(Place("n1", "panes/g"),),
            target=Place("n1", "results/g"),
            decisions=Place("n1", f"decisions/{uuid.uuid4().hex[:8]}"),
            plan=PLAN,
        )
        agent.create_stream(self.merge.decisions.stream, EVENTS)

    def add(self, ts: int, site: str, what: Decision) -> None:
        stream = self.merge.decisions.stream
        epoch = self.agent.claim(stream).epoch  # as every new query does
        self.agent.append(stream, as_row(Decided(ts, site, what)), epoch=epoch)

    def finder(self, start: int = 0) -> LatePanes:
        return LatePanes(self.agent, self.merge, start)


def test_a_gap_is_computed_again_once_the_site_is_back(agent: AgentClient) -> None:
    decisions = Decisions(agent)
    decisions.add(20_000, "x", Left())
    finder = decisions.finder()
    assert finder.find(25_000) == ({}, finder.head)
    finder.done(finder.head)
    assert finder.find(30_000) is None
    decisions.add(40_000, "x", Joined())
    assert finder.find(39_999) is None
    found = finder.find(40_000)
    assert found is not None
    assert found[0] == {"i": [Span(25_000, 40_000)]}
    finder.done(found[1])
    assert finder.find(50_000) is None


def test_the_gap_of_a_site_that_is_forgotten_ends_and_is_left_as_it_is(agent: AgentClient) -> None:
    decisions = Decisions(agent)
    decisions.add(20_000, "x", Left())
    decisions.add(40_000, "x", Forgotten())
    finder = decisions.finder()
    assert finder.find(50_000) == ({}, finder.head)
    finder.done(finder.head)
    assert [finder.presence.missing(tick) for tick in (40_000, 40_001)] == [("x",), ()]


def test_late_panes_touch_the_windows_that_were_closed(agent: AgentClient) -> None:
    decisions = Decisions(agent)
    decisions.add(0, "x", Late((LateSpan("p", 15_000, 15_000, 40_000),)))
    finder = decisions.finder()
    assert finder.find(35_000) is None
    # A pane that ends at 15 s is in the windows that end at 15 s and at 20 s.
    assert finder.find(40_000) == ({"i": [Span(15_000, 20_000)]}, finder.head)
    other = Decisions(agent)
    other.add(0, "x", Late((LateSpan("of another version", 15_000, 15_000, 40_000),)))
    found = other.finder().find(40_000)
    assert found is not None
    assert found[0] == {"i": [Span(15_000, 20_000)]}


def test_who_starts_in_the_middle_knows_what_was_before(agent: AgentClient) -> None:
    decisions = Decisions(agent)
    decisions.add(20_000, "x", Left())
    first = decisions.finder()
    assert first.find(20_000) == ({}, first.head)
    first.done(first.head)
    decisions.add(40_000, "x", Joined())
    again = decisions.finder(first.next)
    found = again.find(40_000)
    assert found is not None
    assert found[0] == {"i": [Span(25_000, 40_000)]}
