"""The sites that corrected results name as missing while the gap of a site is open."""

from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa
from hypothesis import example, given, settings
from hypothesis import strategies as st

from analytics.plan.expressions import Measure, Source
from analytics.plan.fragments import Merge, StreamLocation
from analytics.plan.nodes import Insight, Pane, Plan, Window
from analytics_worker.late_data.late_panes import LatePaneScanner
from analytics_worker.late_data.recomputation import RecomputableTicks, Recomputation
from analytics_worker.late_data.silent_sites import SilentSites
from analytics_worker.late_data.tick_spans import TickSpan, split_after
from analytics_worker.merge.decisions import Joined, Left, Presence, SiteDecision, row_of
from analytics_worker.merge.site_gaps import LastGaps, SiteGap
from analytics_worker.streaming_library import StreamingLibrary
from mistbow.client.agent import AgentClient
from mistbow.streams.schemas import EVENTS, RAW

TICKS = range(5000, 65_000, 5000)
MERGE = Merge(
    id="g",
    sources=(StreamLocation("n1", "panes/n1"), StreamLocation("n2", "panes/n2")),
    target=StreamLocation("n1", "results/g"),
    decisions=StreamLocation("n1", "decisions/g"),
    plan=Plan(
        insights=(Insight(uid="i", expression=Measure("SUM", "w"), by=(), every_ms=5000, since=0),),
        windows=(Window(id="w", pane="p", size_ms=5000, every_ms=5000),),
        panes=(Pane(id="p", source=Source("cpu"), by=(), width_ms=5000),),
    ),
)


class StoredRows:
    """An agent in memory: the decisions about sites, and the times (ms) of the points of a site.

    All panes up to the last tick are stored.
    """

    def __init__(
        self, decisions: tuple[SiteDecision, ...] = (), points: tuple[int, ...] = ()
    ) -> None:
        self.decisions, self.points = decisions, points

    def at(self, site: str) -> "StoredRows":
        del site
        return self

    def info(self, stream: str) -> SimpleNamespace:
        rows = len(self.points) if stream == RAW else 0
        attributes = {"begin": 0} if stream.startswith("panes/") else {}
        return SimpleNamespace(first=0, rows=rows, frontier=TICKS[-1], attributes=attributes)

    def read(self, stream: str, start: int, *_: Any, **__: Any) -> SimpleNamespace:
        if stream == RAW:
            return SimpleNamespace(table=pa.table({"ts": pa.array(self.points, pa.int64())}))
        rows = [row_of(each) for each in self.decisions[start:]]
        position = SimpleNamespace(next=len(self.decisions))
        return SimpleNamespace(table=pa.Table.from_batches(rows, EVENTS), position=position)


def test_new_site_is_absent_at_all_ticks_and_named_after_the_first_result_that_names_it() -> None:
    gaps = LastGaps((SiteGap("n2", 0, None, named_after=35_000),))
    assert [gaps.absent(tick) for tick in (5000, 35_001)] == [{"n2"}, {"n2"}]
    assert [gaps.named(tick) for tick in (5000, 35_000, 35_001)] == [set(), set(), {"n2"}]
    assert sorted(gaps.bounds) == [0, 35_000]


def test_site_that_has_left_is_named_at_all_ticks_of_its_gap() -> None:
    gaps = LastGaps((SiteGap("n2", 10_000, 20_000, is_removed=True),))
    named = [gaps.named(tick) for tick in (10_000, 10_001, 20_000, 20_001)]
    assert named == [set(), {"n2"}, {"n2"}, set()]
    assert sorted(gaps.bounds) == [10_000, 20_000]


def test_later_results_may_include_a_removed_site_up_to_the_last_uncertain_tick() -> None:
    uncertain = (5_000, 7_000), (22_000, 25_000)
    removed = SiteGap("n2", 10_000, 20_000, is_removed=True, uncertain=uncertain)
    gaps = LastGaps((SiteGap("n1", 30_000, None, uncertain=((31_000, 40_000),)), removed))
    ticks = 10_000, 20_000, 25_000, 25_001
    assert [gaps.removed_since(tick) for tick in ticks] == [{"n2"}, {"n2"}, {"n2"}, set()]
    assert gaps.removed_until == 25_000
    gaps = LastGaps((SiteGap("n2", 10_000, 20_000, is_removed=True, uncertain=uncertain[:1]),))
    assert [gaps.removed_since(tick) for tick in (10_000, 10_001)] == [{"n2"}, set()]
    assert gaps.removed_until == 10_000


def test_correction_of_ticks_on_both_sides_of_the_first_named_result_is_split() -> None:
    gaps = LastGaps((SiteGap("n2", 0, None, named_after=35_000),))
    agent = cast("AgentClient", StoredRows())
    recomputation = Recomputation(cast("StreamingLibrary", None), agent)
    ticks: list[RecomputableTicks] = []
    for part in split_after({"i": TickSpan(5000, 60_000)}, MERGE.plan, gaps.bounds):
        ticks += recomputation.split(MERGE, part, gaps, SilentSites())
    assert [(each.spans["i"], each.named) for each in ticks] == [
        (TickSpan(5000, 35_000), frozenset()),
        (TickSpan(35_001, 60_000), frozenset({"n2"})),
    ]
    assert {each.locations for each in ticks} == {MERGE.sources[:1]}


@given(
    left=st.one_of(
        st.tuples(st.just(0), st.none() | st.integers(0, 50_000)),
        st.tuples(st.integers(1, 50_000), st.none() | st.integers(0, 50_000)),
    ),
    joined_at=st.integers(50_000, 60_000),
    first_point=st.none() | st.integers(1, 60_000),
)
@example(left=(0, 35_000), joined_at=60_000, first_point=None)
@example(left=(0, 35_000), joined_at=60_000, first_point=12_000)
@example(left=(0, 35_000), joined_at=60_000, first_point=35_000)
@example(left=(0, 35_000), joined_at=60_000, first_point=48_000)
@example(left=(0, None), joined_at=60_000, first_point=None)
@example(left=(0, None), joined_at=60_000, first_point=48_000)
@example(left=(20_000, 35_000), joined_at=60_000, first_point=48_000)
@settings(deadline=None)
def test_correction_after_a_site_has_joined_includes_each_tick_that_names_the_site(
    left: tuple[int, int | None], joined_at: int, first_point: int | None
) -> None:
    """``left``: the time (ms) of the decision, and its ``named_after``."""
    after, named_after = left
    decided = (
        SiteDecision(after, "n2", Left(named_after)),
        SiteDecision(joined_at, "n2", Joined()),
    )
    presence = Presence()
    presence.apply(decided[:1])
    gaps = LastGaps(tuple(presence.last_gaps.values()))
    # Both first results and corrections name the site during the gap.
    named = {tick for tick in TICKS if tick <= joined_at and gaps.named(tick)}
    assert named == {tick for tick in TICKS if tick <= joined_at and presence.named(tick)}
    points = () if first_point is None else (first_point,)
    scanner = LatePaneScanner(cast("AgentClient", StoredRows(decided, points)), MERGE, 0)
    found = scanner.scan(TICKS[-1])
    assert found is not None
    spans = found[0].get("i", [])
    assert not [tick for tick in named if not any(one.first <= tick <= one.last for one in spans)]
