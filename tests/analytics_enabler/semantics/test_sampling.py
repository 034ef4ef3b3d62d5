"""SAMPLE, MAX_ERROR and AWARENESS: what they mean, and what is refused."""

from typing import get_args

import pytest
from msgspec import UNSET

from analytics_enabler.semantics import check
from analytics_enabler.semantics.sampling import SAMPLED
from mistbow.plan.expressions import Aggregate, Function
from mistbow.plan.nodes import expressions_of
from mistbow.plan.sampling import Allotted, Even, Fixed, Sampling


@pytest.mark.parametrize(
    ("options", "sampling"),
    [
        ("SAMPLE 100", Fixed(100, 5000)),
        ("SAMPLE 0.2", Even(0.2)),
        ("SAMPLE 0.2 AND AWARENESS ON COMPUTATIONS", Even(0.2)),
        ("SAMPLE 0.2 AND AWARENESS ON ACCURACY", Allotted(10_000, 1.0, share=0.2)),
        (
            "MAX_ERROR 0.1 AND CONFIDENCE 0.9",
            Allotted(10_000, 1.0, max_error=0.1, confidence=0.9),
        ),
        (
            "MAX_ERROR 0.1 AND AWARENESS ON ACCURACY",
            Allotted(10_000, 1.0, share=0.5, max_error=0.1),
        ),
    ],
)
def test_what_the_options_mean(options: str, sampling: Sampling) -> None:
    (found,) = check(f"a = COMPUTE AVG(x, 10 s) WHEN > 2 EVERY 5 s WITH {options}").definitions
    assert isinstance(found.expression, Aggregate)
    assert found.expression.source.sampling == sampling
    assert found.filter is not None
    plain = check("a = COMPUTE AVG(x, 10 s) WHEN > 2 EVERY 5 s").definitions[0]
    assert found.meaning != plain.meaning


def test_all_that_is_read_is_sampled_at_ticks_even_without_every() -> None:
    text = "a = COMPUTE AVG(x, 10 MINUTES) WHEN > 2 * AVG(y, 1 HOUR) WITH SAMPLE 0.2"
    (found,) = check(text).definitions
    assert found.filter is not None
    read = [node for node in expressions_of(found) if isinstance(node, Aggregate)]
    assert {node.source.metric for node in read} == {"x", "y"}
    assert not any(node.source.sampling is UNSET or node.each_point for node in read)
    assert not found.each_point


def test_it_is_said_of_each_function_whether_it_may_be_sampled() -> None:
    assert set(SAMPLED) == set(get_args(Function))


@pytest.mark.parametrize(
    ("text", "where", "message"),
    [
        ("x EVERY 5 s WITH SAMPLE 0.1", "SAMPLE 0.1", "a current value is not of a sample"),
        ("TOP-K[3](x) EVERY 5 s WITH SAMPLE 0.1", "TOP-K", "TOP_K is not of a sample"),
        ("MAX(x) EVERY 5 s WITH MAX_ERROR 0.1", "MAX", "MAX has no bound"),
        ("MEDIAN(x) EVERY 5 s WITH SAMPLE 9", "MEDIAN", "MEDIAN needs a sample in which each"),
        ("AVG(x) EVERY 5 s WITH AWARENESS ON ACCURACY", "AWARENESS ON ACCURACY", "nothing is"),
        ("AVG(x) EVERY 5 s WITH SAMPLE 9 AND SAMPLE 8", "SAMPLE 8", "SAMPLE is given twice"),
        (
            "AVG(x) EVERY 5 s WITH SAMPLE 9 AND AWARENESS ON ACCURACY",
            "AWARENESS ON ACCURACY",
            "a sample of a fixed size is the same for each entity",
        ),
        ("AVG(x) EVERY 5 s WITH SAMPLE 9 AND MAX_ERROR 0.1", "MAX_ERROR 0.1", "SAMPLE says how"),
    ],
)
def test_what_is_refused(text: str, where: str, message: str) -> None:
    whole = f"a = COMPUTE {text}"
    (problem,) = check(whole).problems
    assert problem.message.startswith(message)
    assert problem.hint
    start = problem.column - 1
    assert whole[start : start + problem.length] == where


def test_what_another_insight_reads_is_not_sampled_here() -> None:
    text = "a = COMPUTE AVG(x) EVERY 5 s; b = COMPUTE SUM(x) + INSIGHT a EVERY 5 s WITH SAMPLE 0.1"
    (problem,) = check(text).problems
    assert problem.message == "the points that `a` reads are not sampled here"
