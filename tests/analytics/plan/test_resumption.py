import msgspec

from analytics.plan.expressions import Arithmetic, Measure, Source
from analytics.plan.nodes import Insight, Pane, Plan, Window
from analytics.plan.resumption import resume, subplan

PANE = Pane(id="p", source=Source("cpu"), by=(), width_ms=1000)
OTHER = Pane(id="q", source=Source("mem"), by=(), width_ms=1000)
SHORT = Window(id="short", pane="p", size_ms=2000, every_ms=1000)
LONG = Window(id="long", pane="p", size_ms=60_000, every_ms=5000)
ELSE = Window(id="else", pane="q", size_ms=5000, every_ms=5000)


def insight(uid: str, *windows: str, every: int = 1000, since: int = 0) -> Insight:
    expression = Measure("SUM", windows[0])
    for window in windows[1:]:
        expression = Arithmetic("+", expression, Measure("SUM", window))  # type: ignore[assignment]
    return Insight(uid=uid, expression=expression, by=(), every_ms=every, since=since)


PLAN = Plan(
    insights=(insight("a", "short", since=10_000), insight("b", "long", every=5000, since=17_500)),
    windows=(SHORT, LONG),
    panes=(PANE,),
)


def test_a_new_plan_begins_after_since() -> None:
    resumption = resume(PLAN, 0, ())
    assert resumption.after == {"short": 10_000, "long": 17_500}
    assert resumption.needs == min(11_000 - 2000, 20_000 - 60_000)


def test_covered_insights_resume_at_the_frontier() -> None:
    resumption = resume(PLAN, 90_000, {"a"})
    assert resumption.after == {"short": 90_000, "long": 17_500}
    assert [one.since for one in resumption.plan.insights] == [90_000, 17_500]


def test_values_at_points_resume_after_the_last_tick_with_results() -> None:
    carries = msgspec.structs.replace(PANE, contents=("points",))
    own = Window(
        id="own", pane="p", size_ms=60_000, every_ms=10_000, contents=("points",), each_point=True
    )
    at_points = Insight(
        uid="e", expression=Measure("AVG", "own"), by=(), every_ms=10_000, since=0, each_point=True
    )
    plan = Plan(insights=(at_points, insight("a", "short")), windows=(own, SHORT), panes=(carries,))
    # The results of 10 s to 15 s are missing.
    assert [one.since for one in resume(plan, 15_000, {"a", "e"}).plan.insights] == [10_000, 15_000]
    late = msgspec.structs.replace(at_points, since=12_000)
    (since,) = resume(subplan(plan, (late,)), 15_000, {"e"}).plan.insights
    assert since.since == 12_000


def test_part_of_a_plan_has_only_its_own_windows_and_panes() -> None:
    plan = Plan(
        insights=(insight("a", "short"), insight("c", "else", every=5000)),
        windows=(SHORT, LONG, ELSE),
        panes=(PANE, OTHER),
    )
    part = subplan(plan, plan.insights[1:])
    assert (part.windows, part.panes) == ((ELSE,), (OTHER,))
