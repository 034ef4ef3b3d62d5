"""The lag of a fragment, computed from the frontiers of its sources."""

from analytics.plan.expressions import Measure, Source
from analytics.plan.fragments import Merge, Partial, StreamLocation, Whole
from analytics.plan.nodes import Insight, Pane, Plan, Window
from analytics_worker.lifecycle.lag_monitor import overdue_ms

PANE = Pane(id="p", source=Source("x"), by=(), width_ms=5000)
PLAN = Plan(
    insights=(Insight(uid="i", expression=Measure("SUM", "w"), by=(), every_ms=5000, since=0),),
    windows=(Window(id="w", pane="p", size_ms=10_000, every_ms=5000),),
    panes=(PANE,),
)
HERE = StreamLocation("n", "raw")


def test_results_are_overdue_only_after_their_tick() -> None:
    whole = Whole(id="w", source=HERE, target=HERE, plan=PLAN)
    partial = Partial(
        id="p", source=HERE, target=HERE, panes=(PANE,), grain_ms=5000, lookback_ms=10_000, begin=0
    )
    for fragment in (whole, partial):
        assert overdue_ms(fragment, 20_000, [24_999]) == 0
        assert overdue_ms(fragment, 20_000, [26_500]) == 1500
        # It announces a tick a little before the source is there.
        assert overdue_ms(fragment, 30_000, [26_500]) == 0


def test_merge_is_overdue_after_its_patience_with_a_slow_site() -> None:
    merge = Merge(
        id="m", sources=(HERE, HERE), target=HERE, decisions=HERE, plan=PLAN, patience_ms=5000
    )
    assert overdue_ms(merge, 20_000, [40_000, 20_000]) == 0
    assert overdue_ms(merge, 20_000, [40_000, 30_000]) == 5000
    assert overdue_ms(merge, 20_000, [60_000, 20_000]) == 15_000
