import msgspec
import pytest

from analytics.plan.expressions import Measure, Source
from analytics.plan.nodes import Insight, Pane, Plan, Window

PANE = Pane(id="p", source=Source("cpu"), by=(), width_ms=1000)
WINDOW = Window(id="w", pane="p", size_ms=1000, every_ms=1000)


@pytest.mark.parametrize(
    ("function", "start", "reason"),
    [
        ("RUNNING_COUNT", None, "a: window w lacks the start that RUNNING_COUNT needs"),
        ("SUM", 0, "a: window w has a start, but SUM is not an accumulator"),
    ],
)
def test_window_with_wrong_start_is_rejected_with_reason(function, start, reason) -> None:
    window = msgspec.structs.replace(WINDOW, start=start)
    insight = Insight(uid="a", expression=Measure(function, "w"), by=(), every_ms=1000, since=0)
    with pytest.raises(ValueError, match=reason):
        Plan(insights=(insight,), windows=(window,), panes=(PANE,))
