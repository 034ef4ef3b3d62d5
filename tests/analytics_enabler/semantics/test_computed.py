"""What parses but is not computed yet is said so, once, where it stands."""

from dataclasses import is_dataclass

import pytest
from hypothesis import HealthCheck, given, settings

from analytics_enabler.semantics import check
from analytics_enabler.semantics.computed import COMPUTED, NOT_COMPUTED
from grammar import Script, ast, format_script
from tests.grammar.strategies import scripts

REFUSED = [
    ("COMPUTE AVG(x) EVERY 1 d AT 8:00 GMT", "EVERY at a time of day", "1 d AT 8:00 GMT"),
]


@pytest.mark.parametrize(("text", "what", "where"), REFUSED)
def test_it_is_refused_where_it_stands(text: str, what: str, where: str) -> None:
    text = f"a = {text}"
    (problem,) = check(text).problems
    assert problem.message == f"{what} is not computed yet"
    start = problem.column - 1
    assert text[start : start + problem.length] == where


def test_an_insight_is_checked_beside_others_that_are_not_computed() -> None:
    checked = check("a = COMPUTE AVG(x) EVERY 1 K;\nb = COMPUTE AVGG(x) EVERY 1 s")
    assert [(p.line, p.message) for p in checked.problems] == [
        (1, "EVERY by data points is not computed yet"),
        (2, "there is no function `AVGG`"),
    ]


def test_a_scheduler_is_named_once() -> None:
    text = "a = COMPUTE AVG(x) EVERY 1 s WITH SCHEDULER=fair AND scheduler='latency'"
    assert [p.message for p in check(text).problems] == ["SCHEDULER is given twice"]


def test_the_table_is_total() -> None:
    nodes = {
        each
        for each in vars(ast).values()
        if isinstance(each, type) and is_dataclass(each) and issubclass(each, ast.Node)
    } - {ast.Node}
    assert nodes == COMPUTED | NOT_COMPUTED.keys()
    assert not COMPUTED & NOT_COMPUTED.keys()


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(scripts)
def test_no_script_is_too_much_for_the_check(script: Script) -> None:
    check(format_script(script), frozenset({"cpu"}))
