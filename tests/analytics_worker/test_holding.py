"""For how long agents are asked to keep what a fragment reads."""

import pytest

from analytics_enabler.optimizer import optimize
from analytics_worker.holding import needs
from mistbow.plan.fragments import Place, Whole
from mistbow.plan.nodes import Plan
from tests.analytics_enabler.support import definitions

RAW, STATES = Place("n1", "raw"), Place("n1", "states/all.fair")
SPARE, MINUTE, DAY = 600_000, 60_000, 86_400_000


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("AVG(x, 1 h) EVERY 1 m", {RAW: 60 * MINUTE + SPARE}),
        ("RUNNING_MAX(x) EVERY 1 m", {RAW: MINUTE + SPARE, STATES: 128 * MINUTE + SPARE}),
        # An idle key's state is not told again at each tick, only with all others: twice a hold.
        ("RUNNING_MAX(x) EVERY 1 d", {RAW: DAY + SPARE, STATES: 60 * DAY + SPARE}),
        ("RUNNING_MAX(x) EVERY 300 d", {RAW: 300 * DAY + SPARE, STATES: 366 * DAY}),
    ],
)
def test_points_are_held_for_windows_and_states_until_all_are_told_again(
    text: str, wanted: dict[Place, int]
) -> None:
    insights = tuple(each.deployed("a", 0) for each in definitions(f"a = COMPUTE {text}"))
    plan = optimize(Plan(insights=insights)).plan
    whole = Whole(id="all.fair", source=RAW, target=Place("n1", "results/all.fair"), plan=plan)
    assert dict(needs(whole)) == wanted
