"""Golden errors: the rendered diagnostics of texts that do not parse."""

from pathlib import Path

import pytest

from grammar import Diagnostic, ParseError, diagnostic_at, parse, render
from grammar.ast import Span
from tests.grammar.golden import FOLDER, golden, text_of

CASES = sorted(FOLDER.glob("*.txt"))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.stem)
def test_golden_error(case: Path) -> None:
    """Compare the diagnostics of a text with its golden file.

    After an intended change, run ``python -m tests.grammar.regenerate``, and review the diff.
    """
    text = text_of(case)
    assert golden(text) == case.read_text(encoding="utf-8")
    with pytest.raises(ParseError) as raised:
        parse(text)
    assert all(problem.hint for problem in raised.value.problems)


def test_there_are_golden_errors() -> None:
    assert len(CASES) >= 40


def test_the_error_itself_names_the_first_problem() -> None:
    with pytest.raises(ParseError, match=r"line 2, column 3: found `5`, .*\(and 1 more\)"):
        parse("a = COMPUTE AVG(x);\nb 5; c 6")


def test_a_long_line_is_clipped_around_the_problem() -> None:
    text = f"{'x' * 500}!{'y' * 500}"
    shown = render(Diagnostic(1, 501, 1, "no"), text).splitlines()
    assert len(shown[1]) < 120
    assert shown[1][shown[2].index("^")] == "!"


def test_tabs_keep_the_caret_in_place() -> None:
    assert render(Diagnostic(1, 3, 1, "no"), "\ta!").splitlines()[2] == "  | \t ^"


def test_a_problem_beyond_the_text_still_renders() -> None:
    assert render(Diagnostic(7, 3, 2, "no"), "a").endswith("^")


def test_warnings_are_rendered_as_warnings() -> None:
    warning = diagnostic_at(Span(1, 1, 0, 1), "hm", severity="warning")
    assert render(warning, "a").startswith("warning at line 1, column 1: hm")


@pytest.mark.parametrize(
    ("text", "sound", "names"),
    [
        ("a = COMPUTE x EVERY 5 SECS; b = COMPUTE y", 1, {"a"}),
        ("a = COMPUTE x b COMPUTE y s: STREAM FROM storage() FUNCTION f(x) { x }; c = COMPUTE z", 1,
         {"a", "b", "s", "f"}),
        ("a = COMPUTE x WITH K=3 SCHEDULER=fair; c = COMPUTE z; d = COMPUTE z", 2, {"a"}),
    ],
)  # fmt: skip
def test_error_contains_the_valid_statements(text: str, sound: int, names: set[str]) -> None:
    with pytest.raises(ParseError) as raised:
        parse(text)
    rest = raised.value.partial
    assert rest is not None
    assert len(rest.statements) == sound
    assert names <= rest.names


@pytest.mark.parametrize(
    "text",
    ["", "a = COMPUTE x y", "b = COMPUTE x; a = COMPUTE 'x; c = COMPUTE z", "b = COMPUTE x; /* c",
     "b = COMPUTE x; " + "a = 5; " * 100, "a = COMPUTE x;" * 10_001],
    ids=["empty", "one", "string", "comment", "many problems", "many statements"],
)  # fmt: skip
def test_the_error_carries_nothing_where_any_name_may_be_hidden(text: str) -> None:
    with pytest.raises(ParseError) as raised:
        parse(text)
    assert raised.value.partial is None
