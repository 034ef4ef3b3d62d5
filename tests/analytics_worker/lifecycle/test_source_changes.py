"""The decisions that a runner stores when its merge no longer reads a site."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, cast

import pytest
from msgspec.structs import replace

from analytics.plan.expressions import Measure, Source
from analytics.plan.fragments import Merge, StreamLocation
from analytics.plan.nodes import Insight, Pane, Plan, Window
from analytics_worker.late_data.last_gaps import read_last_gaps
from analytics_worker.late_data.late_panes import LatePaneScanner
from analytics_worker.late_data.tick_spans import TickSpan
from analytics_worker.lifecycle.runner import FragmentRunner
from analytics_worker.lifecycle.start_slot import StartSlot
from analytics_worker.merge.decisions import (
    Forgotten,
    Joined,
    Late,
    LateSpan,
    Left,
    SiteDecision,
    read_presence,
    row_of,
)
from analytics_worker.query_lease import QueryLease
from analytics_worker.streaming_library import MergeStart, QueryFailure, StreamingLibrary
from mistbow.client.agent import AgentClient
from mistbow.errors import UnavailableError
from tests.analytics_worker.late_data.corrections import store
from tests.analytics_worker.lifecycle.runner_scene import FakeLibrary, FakeQuery
from tests.support.conditions import eventually

SINCE = 101_000


@dataclass
class MergeLibrary(FakeLibrary):
    """A streaming library that only records the queries of merges, and where they start."""

    starts: list[MergeStart] = field(default_factory=list)

    def run_merge(
        self, fragment: Merge, resumption: Any, start: MergeStart, lease: QueryLease, access: Any
    ) -> FakeQuery:
        del resumption, access
        self.starts.append(start)
        self.queries.append(FakeQuery(fragment, lease))
        return self.queries[-1]


class FailingClient(AgentClient):
    """A client of an agent that raises the error ``failures`` once.

    The error replaces the next append of several rows, or the next change of the attribute
    ``decides``.
    """

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.failures: list[UnavailableError] = []

    def append(self, name: str, rows: Any, **named: Any) -> Any:
        if rows.num_rows > 1:
            self._fail()
        return super().append(name, rows, **named)

    def advance(self, name: str, epoch: int | None = None, **named: Any) -> Any:
        if "decides" in (named.get("attributes") or {}):
            self._fail()
        return super().advance(name, epoch, **named)

    def _fail(self) -> None:
        if self.failures:
            raise self.failures.pop()


@dataclass
class RunningMerge:
    """The runner of a merge over a real agent, with a library whose queries compute nothing."""

    agent: AgentClient
    runner: FragmentRunner
    library: MergeLibrary

    def take_over(self, number: int, frontier: int) -> None:
        """Let the query with a number take over, with results up to ``frontier`` (ms)."""
        self.has_queries(number)
        query = self.library.queries[-1]
        query.frontier = frontier
        fingerprint = query.fragment.fingerprint
        eventually(lambda: self.runner.status().active == fingerprint, what="it takes over")
        eventually(lambda: self.runner.status().frontier == frontier, what="its frontier is stored")

    def has_queries(self, number: int) -> None:
        eventually(lambda: len(self.library.queries) == number, what="the query starts")

    def decide(self, *decided: SiteDecision) -> None:
        """Append decisions, as the query with the lease does."""
        fragment = self.runner.fragment
        assert isinstance(fragment, Merge)
        stream = fragment.decisions.stream
        for decision in decided:
            epoch = self.agent.info(stream).epoch
            self.agent.append(stream, row_of(decision), epoch=epoch)


@contextmanager
def running(agent: AgentClient, first: Merge) -> Iterator[RunningMerge]:
    library = MergeLibrary()
    runner = FragmentRunner(
        cast("StreamingLibrary", library), agent, first, StartSlot(lambda: True)
    )
    runner.start()
    try:
        yield RunningMerge(agent, runner, library)
    finally:
        runner.stop()


def merge_of(group: str, *sites: str) -> Merge:
    insight = Insight(uid="i", expression=Measure("SUM", "w"), by=(), every_ms=1000, since=SINCE)
    return Merge(
        id=group,
        sources=tuple(StreamLocation("n1", f"panes/{group}.{site}", origin=site) for site in sites),
        target=StreamLocation("n1", f"results/{group}"),
        decisions=StreamLocation("n1", f"decisions/{group}"),
        plan=Plan(
            insights=(insight,),
            windows=(Window(id="w", pane="p", size_ms=1000, every_ms=1000),),
            panes=(Pane(id="p", source=Source("x"), by=(), width_ms=1000),),
        ),
    )


def since_the_beginning(merge: Merge) -> Merge:
    """Return a merge whose insight has results since the beginning."""
    insight = replace(merge.plan.insights[0], since=0)
    return replace(merge, plan=replace(merge.plan, insights=(insight,)))


def gaps_of(agent: AgentClient, merge: Merge) -> list[tuple[int, int | None]]:
    """Return (begin, end) of the gaps of a merge's sites, in ms."""
    return [(gap.after, gap.until) for gap in read_presence(agent, merge.decisions).gaps]


def test_results_up_to_the_removal_of_a_present_site_include_the_site(agent: AgentClient) -> None:
    both, one = merge_of("present", "a", "b"), merge_of("present", "a")
    with running(agent, both) as merge:
        merge.take_over(1, 100_000)
        merge.decide(SiteDecision(50_000, "b", Left()), SiteDecision(60_000, "b", Joined()))
        merge.runner.accept(one)
        merge.take_over(2, 102_000)
        gaps = read_last_gaps(agent, one)
        # The ticks of the earlier gap, too, were corrected.
        assert [gaps.removed(tick) for tick in (55_000, 101_000)] == [{"b"}] * 2
        assert not gaps.removed(101_001)
        assert not any(gaps.absent(tick) for tick in (55_000, 101_000, 101_001))
        rows = agent.read(one.decisions.stream).table.num_rows
    with running(agent, one) as merge:
        merge.take_over(1, 103_000)
        assert agent.read(one.decisions.stream).table.num_rows == rows, "it is recorded once"


@pytest.mark.parametrize("is_failing", [False, True])
def test_query_with_a_new_site_decides_once_the_former_query_has_stopped(
    agent: AgentClient, monkeypatch: pytest.MonkeyPatch, *, is_failing: bool
) -> None:
    group = f"new-{int(is_failing)}"
    one, both = merge_of(group, "a"), merge_of(group, "a", "b")
    client = FailingClient(agent.url)
    stop, deciding = FakeQuery.stop, []

    def observed_stop(query: FakeQuery) -> None:
        deciding.append(agent.info(query.fragment.target.stream).attributes["decides"])
        stop(query)
        if is_failing:
            client.failures.append(UnavailableError("the target does not answer"))

    with running(client, one) as merge:
        merge.take_over(1, 100_000)
        monkeypatch.setattr(FakeQuery, "stop", observed_stop)
        merge.runner.accept(both)
        merge.take_over(2, 102_000)
        # While the former query writes results, the site must not join.
        assert deciding == [one.fingerprint]
        eventually(
            lambda: agent.info(both.target.stream).attributes["decides"] == both.fingerprint,
            what="the new query decides",
        )
        assert not client.failures, "the request has failed once"
        monkeypatch.undo()
    client.close()


def test_removal_of_a_site_is_recorded_once_although_an_append_fails(agent: AgentClient) -> None:
    both, one = merge_of("failing", "a", "b"), merge_of("failing", "a")
    client = FailingClient(agent.url)
    with running(client, both) as merge:
        merge.take_over(1, 100_000)
        merge.decide(SiteDecision(95_000, "b", Left()))
        client.failures.append(UnavailableError("the stream is not writable"))
        merge.runner.accept(one)
        merge.take_over(2, 102_000)
        assert not client.failures, "one append has failed"
        # The second gap is empty; it ends the open gap for workers of a former version.
        removal = 95_000, 101_000
        assert gaps_of(agent, one) == [removal, (95_000, 95_000), removal]
    client.close()


def test_gap_of_a_new_site_that_another_worker_has_forgotten_begins_again(
    agent: AgentClient,
) -> None:
    one, both = merge_of("elsewhere", "a"), merge_of("elsewhere", "a", "b")
    with running(agent, one) as merge:
        merge.take_over(1, 100_000)
    with running(agent, both) as merge:
        merge.has_queries(1)
        # Meanwhile, a query without the site takes over on the other worker.
        merge.decide(SiteDecision(100_500, "b", Forgotten()))
        merge.take_over(1, 102_000)
        assert gaps_of(agent, both) == [(0, 100_500), (0, None)]


def test_site_of_a_query_that_is_no_longer_needed_is_forgotten(agent: AgentClient) -> None:
    one, both = merge_of("unneeded", "a"), merge_of("unneeded", "a", "b")
    with running(agent, one) as merge:
        merge.take_over(1, 100_000)
        merge.runner.accept(both)
        merge.has_queries(2)
        assert gaps_of(agent, one) == [(0, None)]
        merge.runner.accept(one)
        eventually(lambda: gaps_of(agent, one) == [(0, 100_000)], what="the site is forgotten")
        assert read_presence(agent, one.decisions).removed_after("b") == 0
        merge.runner.accept(both)
        merge.has_queries(3)
        assert gaps_of(agent, one)[-1] == (0, None)
        assert [query.stopped for query in merge.library.queries] == [False, True, False]


def test_results_up_to_the_removal_include_a_site_that_is_a_source_again(
    agent: AgentClient,
) -> None:
    both, one = merge_of("again", "a", "b"), merge_of("again", "a")
    with running(agent, both) as merge:
        merge.take_over(1, 100_000)
        merge.runner.accept(one)
        merge.take_over(2, 102_000)
        merge.runner.accept(both)
        merge.has_queries(3)
        gaps = read_last_gaps(agent, both)
        assert [gaps.absent(tick) for tick in (90_000, 101_000, 101_001)] == [set(), set(), {"b"}]


def test_results_in_the_gap_of_a_site_that_is_removed_while_it_joins_are_uncertain(
    agent: AgentClient,
) -> None:
    both, one = merge_of("joining", "a", "b"), merge_of("joining", "a")
    with running(agent, both) as merge:
        merge.take_over(1, 100_000)
        merge.decide(SiteDecision(50_000, "b", Left()), SiteDecision(200_000, "b", Joined()))
        merge.runner.accept(one)
        merge.take_over(2, 102_000)
        gaps = read_last_gaps(agent, one)
        # Corrections have read the site since the decision that it joins.
        ticks = (50_000, 50_001, 101_000, 101_001)
        assert [gaps.removed(tick) for tick in ticks] == [{"b"}, {"b"}, {"b"}, set()]
        assert [gaps.uncertain(tick) for tick in ticks] == [set(), {"b"}, {"b"}, set()]
        merge.runner.accept(both)
        merge.has_queries(3)
        gaps = read_last_gaps(agent, both)
        assert [gaps.absent(tick) for tick in ticks] == [set(), set(), set(), {"b"}]


def test_gap_that_was_not_corrected_before_a_removal_is_corrected_once_the_site_is_back(
    agent: AgentClient,
) -> None:
    both, one = (since_the_beginning(merge_of("waiting", *sites)) for sites in ("ab", "a"))
    with running(agent, both) as merge:
        merge.take_over(1, 100_000)
        # The gap is not corrected yet, since earlier panes are not due.
        late = Late((LateSpan("p", 90_000, 90_000, due=2**60),))
        merge.decide(SiteDecision(90_000, "a", late))
        merge.decide(SiteDecision(70_000, "b", Left()), SiteDecision(80_000, "b", Joined()))
        merge.runner.accept(one)
        merge.take_over(2, 102_000)
        gaps = read_last_gaps(agent, one)
        # A corrected result would lose the points of the site.
        assert [gaps.removed(tick) for tick in (70_000, 75_000, 101_001)] == [{"b"}, {"b"}, set()]
        merge.runner.accept(both)
        merge.has_queries(3)
        position = agent.info(both.decisions.stream).head
        gaps = read_last_gaps(agent, both)
        assert [gaps.absent(tick) for tick in (75_000, 101_000, 101_001)] == [set(), set(), {"b"}]
        merge.decide(SiteDecision(110_000, "b", Joined()))
        found = LatePaneScanner(agent, both, position).scan(120_000)
        assert found is not None
        assert found[0] == {"i": [TickSpan(71_000, 80_000), TickSpan(102_000, 110_000)]}


def test_missing_site_that_was_removed_and_is_back_is_named_where_it_was_a_source(
    agent: AgentClient,
) -> None:
    both, one = merge_of("back", "a", "b"), merge_of("back", "a")
    with running(agent, both) as merge:
        merge.take_over(1, 100_000)
        merge.decide(SiteDecision(95_000, "b", Left()))
        merge.runner.accept(one)
        merge.take_over(2, 110_000)
        merge.runner.accept(both)
        merge.has_queries(3)
        gaps = read_last_gaps(agent, both)
        ticks = (95_000, 95_001, 101_000, 101_001, 110_000, 110_001)
        names = [set(), {"b"}, {"b"}, set(), set(), {"b"}]
        assert [gaps.named(tick) for tick in ticks] == names
        assert [gaps.absent(tick) for tick in ticks] == [set(), *[{"b"}] * 5]


def test_results_do_not_name_a_site_that_only_a_candidate_reads(agent: AgentClient) -> None:
    one, both = merge_of("candidate", "a"), merge_of("candidate", "a", "b")
    with running(agent, one) as merge:
        merge.take_over(1, 100_000)
        merge.runner.accept(both)
        merge.has_queries(2)
        assert gaps_of(agent, one) == [(0, None)]
        assert not read_last_gaps(agent, one).named(100_500)
        assert read_last_gaps(agent, both).named(100_500) == {"b"}


def test_results_that_the_former_query_writes_until_it_stops_include_a_removed_site(
    agent: AgentClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    both, one = merge_of("stops", "a", "b"), merge_of("stops", "a")
    stop = FakeQuery.stop

    def late_stop(query: FakeQuery) -> None:
        target = query.fragment.target.stream
        store(agent, target, agent.info(target).epoch, ("i", 103_000, 1.0))
        stop(query)

    with running(agent, both) as merge:
        merge.take_over(1, 100_000)
        monkeypatch.setattr(FakeQuery, "stop", late_stop)
        merge.runner.accept(one)
        merge.take_over(2, 102_000)
        monkeypatch.undo()
        gaps = read_last_gaps(agent, one)
        ticks = (101_000, 101_001, 103_000, 103_001)
        assert [gaps.removed(tick) for tick in ticks] == [{"b"}, {"b"}, {"b"}, set()]


def test_results_and_decisions_of_a_query_that_stops_late_block_no_corrections(
    agent: AgentClient,
) -> None:
    both, one = merge_of("late", "a", "b"), merge_of("late", "a")
    with running(agent, both) as merge:
        merge.take_over(1, 100_000)
        former = merge.library.queries[0]
        former.stop_error = RuntimeError("the engine does not answer")
        merge.runner.accept(one)
        merge.take_over(2, 102_000)
        eventually(
            lambda: not read_last_gaps(agent, one).provisional, what="the removal is settled"
        )
        assert not former.ended
        target = both.target.stream
        store(agent, target, agent.info(target).epoch, ("i", 104_000, 1.0))
        merge.decide(SiteDecision(104_000, "b", Left()))
        assert read_last_gaps(agent, one).provisional == {"b"}
        former.stop_error = None
        eventually(
            lambda: not read_last_gaps(agent, one).provisional, what="the removal is settled again"
        )
        gaps = read_last_gaps(agent, one)
        ticks = (101_000, 104_000, 104_001)
        assert [gaps.removed(tick) for tick in ticks] == [{"b"}, {"b"}, set()]


def test_gap_of_a_new_site_begins_at_its_removal_although_a_query_did_not_take_over(
    agent: AgentClient,
) -> None:
    one, both = merge_of("untaken", "a"), merge_of("untaken", "a", "b")
    with running(agent, one) as merge:
        merge.take_over(1, 100_000)
        merge.runner.accept(both)
        merge.has_queries(2)
        # The site joins, and leaves and joins again, while only the new query reads the site.
        for joined_at in (100_200, 100_500):
            left = SiteDecision(joined_at - 100, "b", Left())
            merge.decide(left, SiteDecision(joined_at, "b", Joined()))
        merge.library.queries[-1].failure = QueryFailure("the query has ended")
        merge.has_queries(3)
        assert gaps_of(agent, both) == [(0, 100_200), (100_400, 100_500), (0, None)]


def test_gap_of_a_new_site_begins_at_its_removal_although_it_left_a_query_that_did_not_take_over(
    agent: AgentClient,
) -> None:
    one, both = merge_of("left", "a"), merge_of("left", "a", "b")
    with running(agent, one) as merge:
        merge.take_over(1, 100_000)
        merge.runner.accept(both)
        merge.has_queries(2)
        joined = SiteDecision(100_500, "b", Joined())
        merge.decide(joined, SiteDecision(100_600, "b", Left()))
        for number in (3, 4):
            merge.library.queries[-1].failure = QueryFailure("the query has ended")
            merge.has_queries(number)
            # The second restart records nothing again.
            assert gaps_of(agent, both) == [(0, 100_500), (100_600, 100_600), (0, None)]
            assert agent.read(both.decisions.stream).table.num_rows == 5


@pytest.mark.parametrize("has_joined_again", [False, True])
def test_results_lack_a_site_since_its_removal_although_it_left_a_query_that_did_not_take_over(
    agent: AgentClient, *, has_joined_again: bool
) -> None:
    group = f"since-{int(has_joined_again)}"
    both, one = merge_of(group, "a", "b"), merge_of(group, "a")
    with running(agent, both) as merge:
        merge.take_over(1, 100_000)
        merge.runner.accept(one)
        merge.take_over(2, 102_000)
        former = merge.library.queries[-1]
        merge.runner.accept(both)
        merge.has_queries(3)
        merge.decide(SiteDecision(103_000, "b", Joined()), SiteDecision(104_000, "b", Left()))
        if has_joined_again:
            merge.decide(SiteDecision(105_000, "b", Joined()))
        former.failure = QueryFailure("the query has ended")
        target = one.target.stream
        store(agent, target, agent.info(target).epoch, ("i", 104_500, 1.0))
        merge.runner.accept(one)
        merge.take_over(4, 106_000)
        presence = read_presence(agent, one.decisions)
        assert presence.open_gaps() == []
        assert presence.removed_after("b") == 101_000
        gaps = read_last_gaps(agent, one)
        # The new query may have written the results at which the site was present.
        ticks = (101_000, 102_500, 103_500, 104_500)
        assert [gaps.removed(tick) for tick in ticks] == [{"b"}, set(), {"b"}, set()]
        merge.runner.accept(both)
        merge.has_queries(5)
        assert gaps_of(agent, both)[-1] == (101_000, None)


def test_removed_site_that_was_missing_is_forgotten_when_the_new_query_takes_over(
    agent: AgentClient,
) -> None:
    both, one = merge_of("missing", "a", "b"), merge_of("missing", "a")
    with running(agent, both) as merge:
        merge.take_over(1, 100_000)
        merge.decide(SiteDecision(95_000, "b", Left()))
        merge.runner.accept(one)
        merge.has_queries(2)
        # The former query still decides that silent sites leave.
        merge.decide(SiteDecision(95_000, "b", Left()))
        merge.take_over(2, 102_000)
        assert read_presence(agent, one.decisions).open_gaps() == []
        gaps = read_last_gaps(agent, one)
        assert [gaps.absent(tick) for tick in (95_000, 95_001, 101_000)] == [set(), {"b"}, {"b"}]
        assert not gaps.absent(101_001)
        assert [gaps.removed(tick) for tick in (95_000, 95_001)] == [{"b"}, set()]
