"""The option ADAM: the sampling of sources, and errors."""

import pytest

from analytics.plan.expressions import Aggregate
from analytics.plan.nodes import expressions_of
from analytics.plan.sampling import Adaptive
from analytics_enabler.semantics import check


@pytest.mark.parametrize(
    ("every", "each_point"), [("", True), ("EVERY 5 s", False), ("EVERY 1 s", False)]
)
def test_adam_samples_all_sources(every: str, each_point: bool) -> None:
    text = f"a = COMPUTE AVG(x, 1 MINUTE) WHEN > 2 * MEDIAN(y, 1 MINUTE) {every} WITH ADAM"
    (found,) = check(f"{text} AND CONFIDENCE 0.9").definitions
    assert found.filter is not None
    read = [node for node in expressions_of(found) if isinstance(node, Aggregate)]
    assert {(node.source.metric, node.source.sampling) for node in read} == {
        ("x", Adaptive(0.9)),
        ("y", Adaptive(0.9)),
    }
    assert found.each_point == each_point
    assert check(text).definitions[0].meaning != found.meaning, "0.95 is meant"


@pytest.mark.parametrize(
    ("text", "where", "message"),
    [
        ("DIFF(x) EVERY 5 s WITH ADAM", "DIFF", "DIFF needs all points, but ADAM skips"),
        ("AVG(x) EVERY 5 s WITH ADAM AND ADAM", "ADAM", "ADAM is given twice"),
        ("AVG(x) EVERY 5 s WITH SAMPLE 0.1 AND ADAM", "ADAM", "ADAM cannot be combined"),
        ("AVG(x, 5 s) EVERY 5 POINTS WITH ADAM", "5 POINTS", "EVERY n POINTS needs all points"),
    ],
)
def test_error_of_adam(text: str, where: str, message: str) -> None:
    whole = f"a = COMPUTE {text}"
    (problem,) = check(whole).problems
    assert problem.message.startswith(message)
    assert problem.hint
    assert whole[problem.column - 1 :].startswith(where)


def test_adam_does_not_reach_references() -> None:
    text = "a = COMPUTE AVG(x) EVERY 5 s; b = COMPUTE SUM(x) + INSIGHT a EVERY 5 s WITH ADAM"
    (problem,) = check(text).problems
    assert problem.message == "this option does not sample the points that `a` reads"
