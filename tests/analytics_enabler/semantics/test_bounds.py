"""Texts that would take too long or too much: each is answered with problems, none with a crash."""

from collections.abc import Callable, Iterable

import pytest

from analytics_enabler.limits import (
    MOST_NODES_OF_REFERENCES,
    MOST_NODES_OF_STREAMS,
    MOST_PARAMETERS,
)
from analytics_enabler.optimizer import optimize
from analytics_enabler.plan_text import plan_text
from analytics_enabler.semantics import Checked, allowed, check, findings, trees
from analytics_enabler.semantics.findings import MOST_SEARCHED, nearest
from grammar import ast
from mistbow.plan.nodes import Plan
from tests.analytics_enabler.support import definition

DEEP = {
    "operators behind groups": "(" * 18 + "AVG(x)" + (" + 1" * 20 + ")") * 18,
    "reductions": "MAX(" * 90 + "AVG(x, 1 s)" + " BY k)" * 90,
    "conditions": "MAX(AVG(x) BY n WHEN " * 70 + "AVG(x) > 1" + ") > 1" * 69 + ")",
}


def balanced(terms: list[str]) -> str:
    """Return the sum of terms, no deeper than need be."""
    if len(terms) == 1:
        return terms[0]
    middle = len(terms) // 2
    return f"({balanced(terms[:middle])} + {balanced(terms[middle:])})"


def errors(checked: Checked) -> list[str]:
    """Return the messages of the errors."""
    return [each.message for each in checked.problems if each.severity == "error"]


@pytest.fixture
def searched(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the words that near ones are looked for, filled while a test runs."""
    words: list[str] = []

    def counted(word: str, known: Iterable[str]) -> list[str]:
        words.append(word)
        return nearest(word, known)

    monkeypatch.setattr(findings, "nearest", counted)
    return words


@pytest.mark.parametrize("kind", DEEP)
def test_what_is_deeper_than_its_parentheses_is_refused(kind: str) -> None:
    checked = check(f"other = COMPUTE AVG(x) EVERY 1 s; a = COMPUTE {DEEP[kind]} EVERY 1 s")
    assert errors(checked) == ["this is nested more than 100 levels deep"]


def test_a_deep_reduction_is_taken() -> None:
    assert check("a = COMPUTE " + "MAX(" * 48 + "AVG(x)" + " BY k)" * 48 + " EVERY 1 s").ok


def test_a_full_stack_is_a_problem_not_a_crash() -> None:
    text = "a = COMPUTE " + "MAX(" * 48 + "AVG(x)" + " BY k)" * 48 + " EVERY 1 s"

    def deeper(frames: int) -> Checked:
        return deeper(frames - 1) if frames else check(text)

    told = {tuple(errors(deeper(frames))) for frames in range(300, 800, 25)}
    assert ("an insight here is too deep to be checked",) in told
    assert all(len(messages) < 2 for messages in told)


def test_points_of_a_thousand_conditions_are_counted() -> None:
    terms = balanced([f"AVG(x WHEN > {number}, 1 s)" for number in range(1000)])
    meant = definition(f"a = COMPUTE {terms} EVERY 10 POINTS")
    assert meant.meaning
    assert plan_text(optimize(Plan(insights=(meant.deployed("a", 0),))).plan)


def test_a_thousand_insights_with_a_filter_on_a_label_search_once(searched: list[str]) -> None:
    metrics = frozenset(f"host{number}.cpu.util" for number in range(2000))
    text = ";".join(
        f"a{n} = COMPUTE AVG(host{n}.cpu.util, 10 s) BY node WHEN building == {n % 40} EVERY 5 s"
        for n in range(1000)
    )
    checked = check(text, metrics)
    assert checked.ok
    assert not checked.problems
    assert searched == ["building"]


def test_searches_for_near_words_are_bounded(searched: list[str]) -> None:
    labels = " AND ".join(f"label{number} == 1" for number in range(500))
    assert check(f"a = COMPUTE AVG(x) WHEN {labels} EVERY 1 s", frozenset({"x"})).ok
    assert len(searched) == MOST_SEARCHED


def test_parameters_are_bounded(searched: list[str]) -> None:
    names = ", ".join(f"p{number}" for number in range(20_000))
    body = balanced([f"q{number}" for number in range(500)])
    checked = check(f"FUNCTION f({names}) {{ {body} }}; a = COMPUTE AVG(x) EVERY 1 s")
    assert errors(checked) == ["`F` has 20,000 parameters"]
    assert len(searched) == MOST_SEARCHED
    most = ", ".join(f"p{number}" for number in range(MOST_PARAMETERS))
    assert check(f"FUNCTION f({most}) {{ x }}; a = COMPUTE AVG(x) EVERY 1 s").ok


def test_what_streams_make_of_a_text_is_bounded() -> None:
    stream = f"s: STREAM FROM storage(n=({', '.join(map(str, range(998)))}));"  # 1,000 nodes
    insights = [f"a{n} = COMPUTE AVG(x FROM (s)) EVERY 1 s" for n in range(101)]
    fits = MOST_NODES_OF_STREAMS // 1000
    assert check(stream + ";".join(insights[:fits])).ok
    (problem,) = check(stream + ";".join(insights)).problems
    assert problem.message == "what this text takes FROM streams is over 100,000 parts"


def test_what_references_make_of_a_text_is_bounded() -> None:
    sums = f"a = COMPUTE {balanced(['AVG(x)'] * 500)} EVERY 1 s;"  # 999 nodes
    insights = [f"b{n} = COMPUTE INSIGHT a EVERY 1 s" for n in range(101)]
    fits = MOST_NODES_OF_REFERENCES // 1000
    assert check(sums + ";".join(insights[:fits])).ok
    (problem,) = check(sums + ";".join(insights)).problems
    assert problem.message == "what this text refers to is over 100,000 parts"


def test_many_terms_of_allow_remake_an_insight_once(monkeypatch: pytest.MonkeyPatch) -> None:
    remade: list[ast.Node] = []

    def counted(node: ast.Node, change: Callable[[ast.Node], ast.Node]) -> ast.Node:
        remade.append(node)
        return trees.rebuilt(node, change)

    monkeypatch.setattr(allowed, "rebuilt", counted)
    terms = " AND ".join(f"rack != {number}" for number in range(500))
    assert check(f"a = COMPUTE AVG(x) EVERY 1 s WITH ALLOW WHEN ({terms})").ok
    assert len(remade) < 10


def test_allow_reaches_metrics_of_its_conditions_on_results_in_any_order() -> None:
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
def test_conditions_inside_of_each_other_double_what_is_meant_only_so_often(inner: str) -> None:
    def problems(levels: int) -> list[str]:
        value = "AVG(x, 1 s)"
        for _ in range(levels):
            value = inner.format(value)
        checked = check(f"a = COMPUTE {value} EVERY 1 s")
        return [each.message for each in checked.problems if each.severity == "error"]

    assert not problems(5)
    (message,) = problems(30)
    assert message.startswith("`a` comes to over 10,000 parts")
