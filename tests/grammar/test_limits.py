"""Texts beyond the limits: the parser rejects each text with a message, and does not crash."""

import inspect
import sys
from collections.abc import Callable
from time import process_time

import pytest

from grammar import ParseError, format_script, parse
from grammar.script_parser import MAX_BYTES, MAX_DEPTH, MAX_PROBLEMS, MAX_STATEMENTS

# The tests parse large texts for seconds.
pytestmark = pytest.mark.integration

NESTINGS: dict[str, Callable[[int], str]] = {
    "parentheses": lambda n: f"COMPUTE {'(' * n}1{')' * n}",
    "sums": lambda n: f"COMPUTE 1{' + 1' * n}",
    "minuses": lambda n: f"COMPUTE {'- ' * n}AVG(x, 1 s)",
    "denials": lambda n: f"COMPUTE 1 WHEN {'NOT ' * n}x > 1",
    "aggregates": lambda n: f"COMPUTE {'SUM(c WHEN x > ' * n}3{')' * n}",
    "operators": lambda n: f"COMPUTE {'ADD(1, ' * n}3{')' * n}",
    "scopes": lambda n: f"COMPUTE {'(' * n}x{' BY a)' * n}",
    "operators behind groups": lambda n: (
        f"COMPUTE {'(' * 20}1{(' + 1' * (n // 20 + 1) + ')') * 20}"
    ),
    "keys": lambda n: f"COMPUTE {'MAX(' * (n // 2 + 1)}AVG(x){' BY k)' * (n // 2 + 1)}",
    "mixtures": lambda n: f"COMPUTE 1 WHEN {'> 1 OR x > 2 AND NOT (' * n}> 3{')' * n}",
}


def messages(text: str) -> list[str]:
    """Return the messages of a text's problems."""
    with pytest.raises(ParseError) as caught:
        parse(text)
    return [problem.message for problem in caught.value.problems]


@pytest.mark.parametrize("kind", NESTINGS)
@pytest.mark.parametrize("depth", [MAX_DEPTH + 1, 10_000])
def test_deep_nesting_is_refused(kind: str, depth: int) -> None:
    assert messages(f"a = {NESTINGS[kind](depth)}") == [
        f"this is nested more than {MAX_DEPTH} levels deep"
    ]


@pytest.mark.parametrize("kind", NESTINGS)
def test_fair_nesting_parses_even_on_a_well_filled_stack(kind: str) -> None:
    text = f"a = {NESTINGS[kind](MAX_DEPTH // 3)}"

    def deeper(frames: int) -> str:
        return deeper(frames - 1) if frames else format_script(parse(text))

    assert deeper(300) == format_script(parse(text))


def test_a_nearly_full_stack_is_a_problem_not_a_crash() -> None:
    text = f"a = {NESTINGS['parentheses'](90)}"

    def deeper(frames: int) -> list[str]:
        return deeper(frames - 1) if frames else messages(text)

    free = sys.getrecursionlimit() - len(inspect.stack(0))
    assert deeper(free - 80) == [f"this is nested more than {MAX_DEPTH} levels deep"]
    parse(text)


def test_text_that_is_too_deep_only_in_canonical_form_is_refused() -> None:
    sums, products = "ADD(" * 45, ", 1)" * 44
    text = f"a = COMPUTE {sums}1{products}, {'(1 + ' * 40}1{')' * 40})"
    assert messages(text) == [f"this is nested more than {MAX_DEPTH} levels deep"]


def test_long_rows_are_not_deep() -> None:
    row = " AND ".join(["x > 1"] * 500)
    names = ", ".join(["x"] * 500)
    parse(f"a = COMPUTE AVG(x) BY {names} WHEN {row} OR x IN ({', '.join(['1'] * 500)})")


@pytest.mark.parametrize(
    "text",
    [
        f"a = COMPUTE f({', '.join(['x'] * 10_000)})",
        f"a = COMPUTE f(x BY {', '.join(['x'] * 10_000)})",
        f"a = COMPUTE 1 WITH {' AND '.join(['SALIENCE 1'] * 5_000)}",
        f"a = COMPUTE 1 WHEN {' OR '.join(['x > 1'] * 5_000)}",
        ";".join(f"a{n} = COMPUTE AVG(x{n}, 9 s) BY y EVERY 3 s" for n in range(1_000)),
    ],
    ids=["arguments", "attributes", "options", "conditions", "insights"],
)
def test_long_texts_take_linear_time(text: str) -> None:
    start = process_time()
    parse(text)
    assert process_time() - start < 5  # well under 1 s here; a square takes minutes


@pytest.mark.parametrize("text", ["a = COMPUTE AVG(x\x00)", "a = COMPUTE AVG(\u202ex)"])
def test_invisible_characters_are_named(text: str) -> None:
    (message,) = messages(text)
    assert message.startswith("the character `U+")


def test_long_texts_are_refused() -> None:
    parse(f"a = COMPUTE 1 //{' ' * (MAX_BYTES - 16)}")
    assert messages(f"a = COMPUTE 1 //{' ' * (MAX_BYTES - 15)}") == [
        "the text is longer than 1,000,000 bytes"
    ]
    assert messages("é" * (MAX_BYTES // 2 + 1)) == ["the text is longer than 1,000,000 bytes"]


def test_too_many_statements_are_refused() -> None:
    text = "a=COMPUTE 1;" * MAX_STATEMENTS
    assert len(parse(text).statements) == MAX_STATEMENTS
    assert messages(text + "b=COMPUTE 1") == ["there are more than 10,000 statements"]


@pytest.mark.parametrize("text", ["".join(f"{chr(0x2600 + n)} " for n in range(500)), "a b;" * 500])
def test_problems_are_bounded(text: str) -> None:
    assert len(messages(text * 20)) == MAX_PROBLEMS


@pytest.mark.parametrize("text", ["@ ", "é ", '"\n'])
def test_repeated_invalid_sign_is_one_problem(text: str) -> None:
    assert len(messages(text * 10_000)) == 1


@pytest.mark.parametrize("every", ["{}5 s", "{}1 DAYS AT 8:00", "{}7 POINTS"])
def test_any_number_of_zeros_may_lead(every: str) -> None:
    text = "a = COMPUTE AVG(x, 1 s) EVERY "
    assert parse(text + every.format("0" * 5000)) == parse(text + every.format(""))


def test_huge_numbers_are_refused() -> None:
    digits = "9" * 100_000
    assert messages(f"a = COMPUTE {digits} + AVG(x, {digits} s)") == [
        "this number is too large",
        "an interval must be at most 36500 DAYS",
    ]


@pytest.mark.parametrize(
    "query", ["WITH SALIENCE -1e999", f"EVERY 1 DAYS AT {'9' * 5000}:00 PM"], ids=["level", "hour"]
)
def test_a_number_beyond_all_bounds_is_refused_with_a_hint(query: str) -> None:
    with pytest.raises(ParseError) as raised:
        parse(f"a = COMPUTE AVG(x, 1 s) {query}")
    assert all(problem.hint for problem in raised.value.problems)
