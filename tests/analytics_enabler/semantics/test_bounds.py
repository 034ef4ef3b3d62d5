"""Bounds: a text that would take too much time or memory has errors, and causes no crash."""

import itertools
import sys
from collections.abc import Callable, Iterable

import pytest

from analytics.plan.nodes import Plan
from analytics.plan.text import plan_text
from analytics_enabler.limits import (
    MAX_NODES_OF_REFERENCES,
    MAX_NODES_OF_STREAMS,
    MAX_PARAMETERS,
)
from analytics_enabler.optimizer import optimize
from analytics_enabler.semantics import Checked, check, diagnostics
from analytics_enabler.semantics.diagnostics import MAX_SEARCHES, nearest
from tests.analytics_enabler.support import definition

# The tests check large texts for seconds.
pytestmark = pytest.mark.integration

DEEP = {
    "operators behind groups": "(" * 18 + "AVG(x)" + (" + 1" * 20 + ")") * 18,
    "reductions": "MAX(" * 90 + "AVG(x, 1 s)" + " BY k)" * 90,
    "conditions": "MAX(AVG(x) BY n WHEN " * 70 + "AVG(x) > 1" + ") > 1" * 69 + ")",
}


def balanced(terms: list[str]) -> str:
    """Return an expression that adds the terms in a balanced tree."""
    if len(terms) == 1:
        return terms[0]
    middle = len(terms) // 2
    return f"({balanced(terms[:middle])} + {balanced(terms[middle:])})"


def errors(checked: Checked) -> list[str]:
    """Return the messages of the errors of a check."""
    return [each.message for each in checked.problems if each.severity == "error"]


def calls_of(work: Callable[[], object]) -> int:
    """Count the calls of Python functions in ``work``, to measure work without a clock."""
    counted = itertools.count()

    def count(_frame: object, event: str, _arg: object) -> None:
        if event == "call":
            next(counted)

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(before)
    return next(counted)


@pytest.fixture
def searched(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list to which the check adds each word for which it searches similar names."""
    words: list[str] = []

    def counted(word: str, known: Iterable[str]) -> list[str]:
        words.append(word)
        return nearest(word, known)

    monkeypatch.setattr(diagnostics, "nearest", counted)
    return words


@pytest.mark.parametrize("kind", DEEP)
def test_nesting_above_bound_is_an_error(kind: str) -> None:
    checked = check(f"other = COMPUTE AVG(x) EVERY 1 s; a = COMPUTE {DEEP[kind]} EVERY 1 s")
    assert errors(checked) == ["this is nested more than 100 levels deep"]


def test_deep_reduction_within_bound_is_accepted() -> None:
    assert check("a = COMPUTE " + "MAX(" * 48 + "AVG(x)" + " BY k)" * 48 + " EVERY 1 s").ok


def test_exhausted_stack_is_an_error() -> None:
    text = "a = COMPUTE " + "MAX(" * 48 + "AVG(x)" + " BY k)" * 48 + " EVERY 1 s"

    def deeper(frames: int) -> Checked:
        return deeper(frames - 1) if frames else check(text)

    outcomes = {tuple(errors(deeper(frames))) for frames in range(300, 800, 25)}
    assert ("an insight of this text is nested too deeply",) in outcomes
    assert all(len(messages) < 2 for messages in outcomes)


def test_point_counts_of_a_thousand_conditions() -> None:
    terms = balanced([f"AVG(x WHEN > {number}, 1 s)" for number in range(1000)])
    meant = definition(f"a = COMPUTE {terms} EVERY 10 POINTS")
    assert meant.meaning
    assert plan_text(optimize(Plan(insights=(meant.deployed("a", 0),))).plan)


def test_label_of_a_thousand_insights_is_searched_once(searched: list[str]) -> None:
    metrics = frozenset(f"host{number}.cpu.util" for number in range(2000))
    text = ";".join(
        f"a{n} = COMPUTE AVG(host{n}.cpu.util, 10 s) BY node WHEN building == {n % 40} EVERY 5 s"
        for n in range(1000)
    )
    checked = check(text, metrics)
    assert checked.ok
    assert not checked.problems
    assert searched == ["building"]


def test_searches_for_similar_words_are_bounded(searched: list[str]) -> None:
    labels = " AND ".join(f"label{number} == 1" for number in range(500))
    assert check(f"a = COMPUTE AVG(x) WHEN {labels} EVERY 1 s", frozenset({"x"})).ok
    assert len(searched) == MAX_SEARCHES


def test_parameters_are_bounded(searched: list[str]) -> None:
    names = ", ".join(f"p{number}" for number in range(20_000))
    body = balanced([f"q{number}" for number in range(500)])
    checked = check(f"FUNCTION f({names}) {{ {body} }}; a = COMPUTE AVG(x) EVERY 1 s")
    assert errors(checked) == ["`F` has 20,000 parameters"]
    assert len(searched) == MAX_SEARCHES
    most = ", ".join(f"p{number}" for number in range(MAX_PARAMETERS))
    assert check(f"FUNCTION f({most}) {{ x }}; a = COMPUTE AVG(x) EVERY 1 s").ok


def test_size_of_expanded_streams_is_bounded() -> None:
    stream = f"s: STREAM FROM storage(n=({', '.join(map(str, range(998)))}));"  # 1,000 nodes
    insights = [f"a{n} = COMPUTE AVG(x FROM (s)) EVERY 1 s" for n in range(101)]
    fits = MAX_NODES_OF_STREAMS // 1000
    assert check(stream + ";".join(insights[:fits])).ok
    (problem,) = check(stream + ";".join(insights)).problems
    assert (
        problem.message
        == "the streams in the FROMs of this text have over 100,000 expression nodes"
    )


def test_size_of_references_is_bounded() -> None:
    sums = f"a = COMPUTE {balanced(['AVG(x)'] * 500)} EVERY 1 s;"  # 999 nodes
    insights = [f"b{n} = COMPUTE INSIGHT a EVERY 1 s" for n in range(101)]
    fits = MAX_NODES_OF_REFERENCES // 1000
    assert check(sums + ";".join(insights[:fits])).ok
    (problem,) = check(sums + ";".join(insights)).problems
    assert (
        problem.message
        == "the insights to which this text refers have over 100,000 expression nodes"
    )


def test_allow_of_many_terms_restricts_the_source() -> None:
    terms = " AND ".join(f"rack != {number}" for number in range(500))
    one = definition(f"a = COMPUTE AVG(x) EVERY 1 s WITH ALLOW WHEN ({terms})")
    other = definition(f"a = COMPUTE AVG(x WHEN {terms}) EVERY 1 s")
    assert one.expression == other.expression


def test_work_of_allow_is_linear_in_its_terms() -> None:
    def calls(terms: int) -> int:
        condition = " AND ".join(f"rack != {number}" for number in range(terms))
        return calls_of(
            lambda: check(f"a = COMPUTE AVG(x) EVERY 1 s WITH ALLOW WHEN ({condition})")
        )

    calls(10)  # the parser's tables are filled once in a process
    few, many = calls(125), calls(500)
    assert many < 4.5 * few


def test_allow_restricts_metrics_of_its_other_terms_in_any_order() -> None:
    one = definition("a = COMPUTE MAX(x) EVERY 5 s WITH ALLOW WHEN (zone == 'a' AND MIN(y) > 5)")
    two = definition("a = COMPUTE MAX(x) EVERY 5 s WITH ALLOW WHEN (MIN(y) > 5 AND zone == 'a')")
    assert one.meaning == two.meaning
    assert (
        one.meaning
        == definition("a = COMPUTE MAX(x) WHEN zone == 'a' AND MIN(y) > 5 EVERY 5 s").meaning
    )


@pytest.mark.parametrize(
    "inner", ["({} WHEN > 1)", "({} WHEN > 1 OR < 0)", "MAX(({} BY k WHEN > 1))"]
)
def test_size_of_nested_conditions_is_bounded(inner: str) -> None:
    def problems(levels: int) -> list[str]:
        value = "AVG(x, 1 s)"
        for _ in range(levels):
            value = inner.format(value)
        checked = check(f"a = COMPUTE {value} EVERY 1 s")
        return [each.message for each in checked.problems if each.severity == "error"]

    assert not problems(5)
    (message,) = problems(30)
    assert message.startswith("`a` has a plan of over 10,000 expression nodes")
