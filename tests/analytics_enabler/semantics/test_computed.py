"""What parses but is not computed yet is said so, once, where it stands."""

from dataclasses import is_dataclass

import pytest
from hypothesis import HealthCheck, given, settings

from analytics_enabler.semantics import check
from analytics_enabler.semantics.computed import COMPUTED, NOT_COMPUTED
from grammar import Script, ast, format_script
from tests.grammar.strategies import scripts

REFUSED = [
    ("COMPUTE cpu EVERY 1 s", "`cpu` alone", "cpu"),
    ('COMPUTE AVG(x) + "disk io" EVERY 1 s', '`"disk io"` alone', '"disk io"'),
    ("COMPUTE (cpu WHEN > 0) * 2 EVERY 1 s", "`cpu WHEN > 0` alone", "cpu WHEN > 0"),
    ("COMPUTE MEDIAN(x) EVERY 1 s", "`MEDIAN`", "MEDIAN(x)"),
    ("COMPUTE AVG(x) WHEN > RUNNING_STD(x) EVERY 1 s", "`RUNNING_SDEV`", "RUNNING_STD(x)"),
    ("COMPUTE AVG[3](x) EVERY 1 s", "a parameter of AVG", "3"),
    ("COMPUTE AVG(x, 1 s, 5 s) EVERY 1 s", "an offset", "5 s"),
    ("COMPUTE AVG(x, y) EVERY 1 s", "AVG of several values", "y"),
    ("COMPUTE MIN(SUM(x) BY a) EVERY 1 s", "MIN of anything but a metric", "SUM(x) BY a"),
    ("COMPUTE (SUM(x) BY a) / 2 EVERY 1 s", "BY or WHEN inside an expression", "SUM(x) BY a"),
    ("COMPUTE AVG(x) + INSIGHT b EVERY 1 s", "INSIGHT", "INSIGHT b"),
    ("COMPUTE AVG(x) EVERY 5 K", "EVERY by data points", "5 K"),
    ("COMPUTE AVG(x) EVERY 1 d AT 8:00 GMT", "EVERY at a time of day", "1 d AT 8:00 GMT"),
    ("COMPUTE AVG(x) EVERY 1 s WITH SAMPLE 0.2", "SAMPLE", "SAMPLE 0.2"),
]


@pytest.mark.parametrize(("text", "what", "where"), REFUSED)
def test_it_is_refused_where_it_stands(text: str, what: str, where: str) -> None:
    text = f"a = {text}"
    (problem,) = check(text).problems
    assert problem.message == f"{what} is not computed yet"
    start = problem.column - 1
    assert text[start : start + problem.length] == where


def test_definitions_are_refused_and_calls_of_own_functions_with_them() -> None:
    text = "FUNCTION f(x) { 2 * x }; s: STREAM FROM stream(); a = COMPUTE f(y) EVERY 1 s"
    whats = [
        problem.message.removesuffix(" is not computed yet") for problem in check(text).problems
    ]
    assert whats == ["a FUNCTION", "a STREAM definition", "`F`"]


def test_an_insight_is_checked_beside_others_that_are_not_computed() -> None:
    checked = check("a = COMPUTE MEDIAN(x) EVERY 1 s;\nb = COMPUTE AVGG(x) EVERY 1 s")
    assert [(p.line, p.message) for p in checked.problems] == [
        (1, "`MEDIAN` is not computed yet"),
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


@pytest.mark.parametrize(
    "text",
    [
        "a = COMPUTE FOO(x WHEN INSIGHT y > 3, 10 SECONDS) EVERY 5 SECONDS",
        "a = COMPUTE FOO(x WHEN y FROM (z) > 3, 10 SECONDS) EVERY 5 SECONDS",
        "a = COMPUTE FOO(x WHEN (y BY z) > 3, 10 SECONDS) EVERY 5 SECONDS",
        "a = COMPUTE AVG(x) WHEN FOO(y WHEN INSIGHT q > 1) > 3 EVERY 5 SECONDS",
    ],
)
def test_functions_that_there_are_not_may_hold_anything(text: str) -> None:
    messages = [problem.message for problem in check(text).problems]
    assert messages
    assert all("is not computed yet" in message for message in messages)
