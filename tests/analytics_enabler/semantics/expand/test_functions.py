"""FUNCTION: expansion of calls, and errors of definitions and calls."""

import pytest

from analytics_enabler.semantics import check
from analytics_enabler.semantics.diagnostics import Diagnostics, Suggestions
from analytics_enabler.semantics.expand.functions import functions_of
from analytics_enabler.semantics.expand.substitution import Substitution
from grammar import parse
from grammar.ast import InsightStatement
from tests.analytics_enabler.support import definitions

MEANINGS = [
    ("f(part, whole) { 100 * part / whole }", "F(AVG(x), SUM(y))", "100 * AVG(x) / SUM(y)"),
    ("f(a) { 2 * a }", "3 - f(AVG(x) + 1)", "3 - 2 * (AVG(x) + 1)"),
    ("f(a) { a }; FUNCTION g(a) { f(f(a)) }", "g(AVG(x))", "AVG(x)"),
    # A metric as an argument, with what it has; the parameter's own FROM and WHEN join it.
    ("f(m) { AVG(m, 1 m) }", "f(cpu)", "AVG(cpu, 1 m)"),
    ("f(m) { AVG(m WHEN > 0) }", "f(cpu FROM (h) WHEN r == 'a')",
     "AVG(cpu FROM (h) WHEN r == 'a' AND > 0)"),
    ("f(m) { AVG(m FROM (h)) }", "f(cpu WHEN > 9)", "AVG(cpu FROM (h) WHEN > 9)"),
    ("f(m, h, n) { SUM(m FROM (h, h2) WHEN > n) }", "f(x, h1, -3)",
     "SUM(x FROM (h1, h2) WHEN > -3)"),
    ("f(a, b) { AVG(x WHEN y > 2 * b) - a }", "f(SUM(b), 4)", "AVG(x WHEN y > 2 * 4) - SUM(b)"),
    # Neither does a body's `b` become an argument, nor an argument's `a` a parameter.
    ("g(b) { f(b) }; FUNCTION f(a) { a + AVG(b) }", "g(MAX(a))", "MAX(a) + AVG(b)"),
    ("f(a) { AVG(x) + a }", "AVG(z) WHEN > f(1)", "AVG(z) WHEN > AVG(x) + 1"),
]  # fmt: skip


@pytest.mark.parametrize(("function", "call", "plain"), MEANINGS)
def test_expansion_of_call(function: str, call: str, plain: str) -> None:
    (found,) = definitions(f"FUNCTION {function}; a = COMPUTE {call} EVERY 5 s")
    (wanted,) = definitions(f"a = COMPUTE {plain} EVERY 5 s")
    assert found.meaning == wanted.meaning
    assert "F(" in found.text or "G(" in found.text  # as it was written


ERRORS = [
    ("f(a) { a + 1 }", "f(AVG(x), 2)", "`F` takes 1 value, not 2", "f(AVG(x), 2)", "`F(a)`"),
    ("f(a) { a + 1 }", "f(AVG(x), 5 s)", "`F` takes no window", "5 s", "body"),
    ("f(a) { a + 1 }", "f[3](AVG(x))", "`F` takes no window", "3", "body"),
    ("f(a) { g(a) }; FUNCTION g(b) { f(b) }", "g(AVG(x))", "`F` calls itself: F → G → F",
     "FUNCTION f", "Remove one"),
    ("max(a) { a }", "MAX(x)", "there is a function `MAX` already", "FUNCTION max", "another"),
    ("mean(a) { a }", "MAX(x)", "there is a function `MEAN` already", "FUNCTION mean", "another"),
    ("f(a, a) { a }", "f(x, y)", "two parameters `a`", "FUNCTION f", "of its own"),
    ("f(a) { AVGG(a) }", "f(x) + f(y)", "no function `AVGG`", "AVGG", "`AVG`"),
    ("f(h) { AVG(x FROM (h)) }", "f(3)", "needs a name, not `3`", "3", "Pass the name"),
    ("f(m) { AVG(m FROM (h)) }", "f(x FROM (g))", "adds a FROM", "x FROM (g)", "without"),
    ("f(p) { PERCENTILE[p](x) }", "f(AVG(x))", "needs a number for [ ]", "AVG(x)", "number"),
    ("f(r) { AVG(x WHEN region == r) }", 'f("north")', "an attribute or a text", '"north"', "body"),
]  # fmt: skip


@pytest.mark.parametrize(("function", "call", "message", "where", "hint"), ERRORS)
def test_error_of_function(function: str, call: str, message: str, where: str, hint: str) -> None:
    text = f"FUNCTION {function}; a = COMPUTE {call} EVERY 5 s"
    (problem,) = [each for each in check(text).problems if each.severity == "error"]
    assert message in problem.message
    assert text[problem.column - 1 :][: problem.length] == where
    assert hint in (problem.hint or "")


def test_unused_function_and_misspelt_parameter_are_warnings() -> None:
    text = (
        "FUNCTION f(part) { part / AVG(x) }; FUNCTION g(part) { prat }; a = COMPUTE g(z) EVERY 1 s"
    )
    checked = check(text)
    assert checked.ok
    assert [(each.column, each.message) for each in checked.problems] == [
        (1, "nothing calls the function `F`"),
        (56, "`prat` is a metric, because `G` has no such parameter"),
    ]


def test_second_function_of_one_name_is_an_error() -> None:
    text = "FUNCTION f(a) { a };\nFUNCTION F(b) { b };\na = COMPUTE f(AVG(x)) EVERY 1 s"
    (problem,) = check(text).problems
    assert (problem.line, problem.message) == (2, "there are two functions `F`")


def test_text_without_insight_is_an_error() -> None:
    checked = check("FUNCTION f(a) { a }; north: STREAM FROM storage(region='n')")
    assert [p.message for p in checked.problems if p.severity == "error"] == [
        "there is no insight in this text"
    ]


LAUGHS = "; ".join(
    f"FUNCTION f{number}(a) {{ f{number - 1}(a) + f{number - 1}(a) }}" for number in range(1, 60)
)


@pytest.mark.parametrize(
    "text",
    [
        f"FUNCTION f0(a) {{ a }}; {LAUGHS}; b = COMPUTE f59(AVG(x)) EVERY 1 s",
        f"FUNCTION f(a) {{ a + a }}; b = COMPUTE {'f(' * 60}AVG(x){')' * 60} EVERY 1 s",
        "FUNCTION f0(a) { a }; "
        + "".join(f"FUNCTION f{n}(a) {{ f{n - 1}(a) }}; " for n in range(1, 900))
        + "b = COMPUTE f899(AVG(x)) EVERY 1 s",
        f"FUNCTION f(a) {{ {'-(' * 40}a{')' * 40} }}; b = COMPUTE f(f(f(AVG(x)))) EVERY 1 s",
    ],
)
def test_size_of_expanded_call_is_bounded(text: str) -> None:
    (problem,) = check(text).problems
    assert problem.message.startswith("the calls in `b` expand to over 10,000 expression nodes")


def test_size_of_all_expanded_calls_is_bounded() -> None:
    many = f"FUNCTION f(a) {{ {' + '.join(['a'] * 40)} }}; FUNCTION g(a) {{ f(a) * f(f(a)) }}"
    script = parse(f"{many}; " + "; ".join(f"i{n} = COMPUTE g(x) EVERY 1 s" for n in range(1000)))
    diagnostics = Diagnostics()
    functions = functions_of(script, diagnostics, Suggestions())
    substitution = Substitution(functions, diagnostics)
    expanded = [
        substitution.apply(each) for each in script.statements if isinstance(each, InsightStatement)
    ]
    sound = [each for each in expanded if each is not None]
    assert 20 < len(sound) < 100
    assert expanded[: len(sound)] == sound
    assert len(diagnostics.problems) == 1000 - len(sound)


def test_thousand_insights_that_call_functions_are_defined() -> None:
    text = "FUNCTION f(a, b) { 100 * AVG(a WHEN > b, 10 SECONDS) / MAX(a) }; " + "; ".join(
        f"i{n} = COMPUTE f(cpu{n}, {n}) + INSIGHT base EVERY 5 SECONDS" for n in range(1000)
    )
    checked = check(f"{text}; base = COMPUTE AVG(cpu) EVERY 5 SECONDS")
    assert checked.ok
    assert [each.name for each in checked.definitions[:2]] == ["i0", "i1"]
