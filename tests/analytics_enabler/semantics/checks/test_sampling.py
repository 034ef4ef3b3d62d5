"""The options SAMPLE, MAX_ERROR and AWARENESS: the sampling of sources, and errors."""

import pytest
from msgspec import UNSET

from analytics.plan.expressions import Aggregate
from analytics.plan.nodes import expressions_of
from analytics.plan.sampling import Bernoulli, FixedSize, NeymanAllocation, Sampling
from analytics_enabler.semantics import check


@pytest.mark.parametrize(
    ("options", "sampling"),
    [
        ("SAMPLE 100", FixedSize(100, 5000)),
        ("SAMPLE 0.2", Bernoulli(0.2)),
        ("SAMPLE 0.2 AND AWARENESS ON COMPUTATIONS", Bernoulli(0.2)),
        ("SAMPLE 0.2 AND AWARENESS ON ACCURACY", NeymanAllocation(10_000, 1.0, share=0.2)),
        (
            "MAX_ERROR 0.1 AND CONFIDENCE 0.9",
            NeymanAllocation(10_000, 1.0, max_error=0.1, confidence=0.9),
        ),
        (
            "MAX_ERROR 0.1 AND AWARENESS ON ACCURACY",
            NeymanAllocation(10_000, 1.0, share=0.5, max_error=0.1),
        ),
    ],
)
def test_sampling_of_source(options: str, sampling: Sampling) -> None:
    (found,) = check(f"a = COMPUTE AVG(x, 10 s) WHEN > 2 EVERY 5 s WITH {options}").definitions
    assert isinstance(found.expression, Aggregate)
    assert found.expression.source.sampling == sampling
    assert found.filter is not None
    plain = check("a = COMPUTE AVG(x, 10 s) WHEN > 2 EVERY 5 s").definitions[0]
    assert found.meaning != plain.meaning


def test_sampled_insight_without_every_has_ticks() -> None:
    text = "a = COMPUTE AVG(x, 10 MINUTES) WHEN > 2 * AVG(y, 1 HOUR) WITH SAMPLE 0.2"
    (found,) = check(text).definitions
    assert found.filter is not None
    read = [node for node in expressions_of(found) if isinstance(node, Aggregate)]
    assert {node.source.metric for node in read} == {"x", "y"}
    assert not any(node.source.sampling is UNSET or node.each_point for node in read)
    assert not found.each_point


@pytest.mark.parametrize(
    ("text", "where", "message"),
    [
        (
            "x EVERY 5 s WITH SAMPLE 0.1",
            "SAMPLE 0.1",
            "a current value is undefined over a sample",
        ),
        ("TOP-K[3](x) EVERY 5 s WITH SAMPLE 0.1", "TOP-K", "TOP_K is undefined over a sample"),
        ("MAX(x) EVERY 5 s WITH MAX_ERROR 0.1", "MAX", "MAX has no error bound"),
        ("MEDIAN(x) EVERY 5 s WITH SAMPLE 9", "MEDIAN", "MEDIAN needs a sample in which each"),
        (
            "AVG(x) EVERY 5 s WITH AWARENESS ON ACCURACY",
            "AWARENESS ON ACCURACY",
            "AWARENESS needs SAMPLE",
        ),
        ("AVG(x) EVERY 5 s WITH SAMPLE 9 AND SAMPLE 8", "SAMPLE 8", "SAMPLE is given twice"),
        (
            "AVG(x) EVERY 5 s WITH SAMPLE 9 AND AWARENESS ON ACCURACY",
            "AWARENESS ON ACCURACY",
            "AWARENESS ON ACCURACY needs a share",
        ),
        (
            "AVG(x) EVERY 5 s WITH SAMPLE 9 AND MAX_ERROR 0.1",
            "MAX_ERROR 0.1",
            "SAMPLE and MAX_ERROR cannot be combined",
        ),
    ],
)
def test_error_of_sampling(text: str, where: str, message: str) -> None:
    whole = f"a = COMPUTE {text}"
    (problem,) = check(whole).problems
    assert problem.message.startswith(message)
    assert problem.hint
    start = problem.column - 1
    assert whole[start : start + problem.length] == where


def test_sampling_does_not_reach_references() -> None:
    text = "a = COMPUTE AVG(x) EVERY 5 s; b = COMPUTE SUM(x) + INSIGHT a EVERY 5 s WITH SAMPLE 0.1"
    (problem,) = check(text).problems
    assert problem.message == "this option does not sample the points that `a` reads"
