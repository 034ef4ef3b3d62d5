"""What explain says."""

from analytics_enabler.explain import explanation_text
from analytics_enabler.explain.explanation import added_by, explain, plans_with
from analytics_enabler.semantics import Sites, check
from mistbow.insights import Explanation
from tests.analytics_enabler.support import deployment

HEADROOM = "cpu_headroom = COMPUTE 100 - AVG(cpu, 10 SECONDS) EVERY 5 SECONDS"
RUNNING = deployment("cpu_now = COMPUTE AVG(cpu, 10 s) EVERY 5 s; m = COMPUTE AVG(mem) EVERY 1 s")


def explained(text: str) -> Explanation:
    checked = check(text)
    added = added_by(checked, Sites())
    return explain(checked, added, plans_with(added, RUNNING.running))


def test_it_says_what_is_shared_with_running_insights() -> None:
    (shared,) = explained(HEADROOM).shared
    assert shared.id.startswith("w-")
    assert shared.others == ["d-1/cpu_now/1"]
    assert shared.text == f"cpu_headroom shares {shared.id} with cpu_now of d-1; computed once"


def test_it_says_what_is_shared_within_the_text() -> None:
    first, second = explained(f"{HEADROOM}; other = COMPUTE MAX(cpu, 10 s) EVERY 5 s").shared
    assert first.text.endswith("cpu_now of d-1 and 1 more; computed once")
    assert second.others == ["d-1/cpu_now/1", "new/cpu_headroom/1"]


def test_a_shared_pane_is_told_where_the_window_is_not_shared() -> None:
    (shared,) = explained("slow = COMPUTE AVG(cpu, 1 MINUTE) EVERY 10 s").shared
    assert shared.id.startswith("p-")
    assert shared.text.endswith("cut once")


def test_nothing_is_shared_between_groups() -> None:
    assert explained(f"{HEADROOM} WITH SCHEDULER=latency").shared == []


def test_nothing_is_shared_with_other_keys_or_filters() -> None:
    for aggregate in ("AVG(cpu, 10 s) BY node", "AVG(cpu WHEN > 0, 10 s)"):
        assert explained(f"a = COMPUTE {aggregate} EVERY 5 s").shared == []


def test_it_shows_the_way_from_syntax_to_plan() -> None:
    explanation = explained("a = COMPUTE AVG(cpu, 10 s) * (3 - 2) WHEN > 1 EVERY 5 s")
    assert explanation.ast[0]["expression"]["left"]["function"] == "AVG"
    assert [step.rule for step in explanation.steps] == ["fold_constants", "merge_identical"]


def test_errors_are_all_that_is_said_of_a_wrong_text() -> None:
    explanation = explained("a = COMPUTE AVG(cpu)")
    assert len(explanation.problems) == 1
    assert explanation.plan == []


def test_the_text_has_a_heading_for_each_part() -> None:
    text = explanation_text(explained(HEADROOM), HEADROOM)
    for heading in ("Syntax", "Plan", "After merge_identical", "Shared"):
        assert f"{heading}" in text
    assert "function=AVG window=10 SECONDS" in text
    wrong = "a = COMPUTE AVG(cpu)"
    assert "^" in explanation_text(explained(wrong), wrong)
