"""How far behind a fragment is, by how far the streams are that it reads."""

from analytics_worker.overload import overdue_ms
from mistbow.plan.expressions import Measure, Source
from mistbow.plan.fragments import Merge, Partial, Place, Whole
from mistbow.plan.nodes import Insight, Pane, Plan, Window

PANE = Pane(id="p", source=Source("x"), by=(), width_ms=5000)
PLAN = Plan(
    insights=(Insight(uid="i", expression=Measure("SUM", "w"), by=(), every_ms=5000, since=0),),
    windows=(Window(id="w", pane="p", size_ms=10_000, every_ms=5000),),
    panes=(PANE,),
)
HERE = Place("n", "raw")


def test_only_what_is_due_and_not_done_is_overdue() -> None:
    whole = Whole(id="w", source=HERE, target=HERE, plan=PLAN)
    partial = Partial(
        id="p", source=HERE, target=HERE, panes=(PANE,), grain_ms=5000, reach_ms=10_000, begin=0
    )
    for fragment in (whole, partial):
        assert overdue_ms(fragment, 20_000, [24_999]) == 0
        assert overdue_ms(fragment, 20_000, [26_500]) == 1500
        # It announces a tick a little before the source is there.
        assert overdue_ms(fragment, 30_000, [26_500]) == 0


def test_a_merge_may_wait_for_a_site_but_not_for_ever() -> None:
    merge = Merge(
        id="m", sources=(HERE, HERE), target=HERE, decisions=HERE, plan=PLAN, patience_ms=5000
    )
    assert overdue_ms(merge, 20_000, [40_000, 20_000]) == 0
    assert overdue_ms(merge, 20_000, [40_000, 30_000]) == 5000
    assert overdue_ms(merge, 20_000, [60_000, 20_000]) == 15_000
