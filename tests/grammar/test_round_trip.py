"""Round trip of syntax trees through their canonical texts, and parsing of arbitrary texts.

A text that does not parse raises ``ParseError``, and no other error.
"""

import random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from grammar import ParseError, Script, format_script, format_text, parse, render
from tests.grammar.strategies import scripts
from tests.support.examples import examples

_SIGNS = "()'\";,=<>!+-*/.\\\n\t @:[]{}&|éß\u00a0\ufeff\x00"
_WORDS = """COMPUTE BY WHEN EVERY FROM IN NOT AND OR WITH true 5 SECONDS AVG( cpu 1e999 0 -- // /*
    SCHEDULER = INSIGHT STREAM FUNCTION AT 23:59 GMT POINTS K M [3] { } SALIENCE SAMPLE 0.2 ADAM
    MAX_ERROR CONFIDENCE AWARENESS ON ACCURACY ALGORITHM R COST_CAP PER PLACEMENT_ON DEDICATED ALLOW
    SIGNATURE TOP-K[ ADD( : \u202e"""
_SNIPPETS = [*_SIGNS, *_WORDS.split()]


_MODEST = settings(examples(200), suppress_health_check=[HealthCheck.too_slow])
_AMPLE = settings(_MODEST, max_examples=10_000)


@_MODEST
@given(scripts)
def test_canonical_text_parses_to_the_same_tree(script: Script) -> None:
    _round_trip(script)


@pytest.mark.soak
@pytest.mark.timeout(1800)
@_AMPLE
@given(scripts)
def test_canonical_text_parses_to_the_same_tree_ten_thousand_times(script: Script) -> None:
    _round_trip(script)


def test_a_number_with_a_condition_is_an_argument_and_no_window() -> None:
    _round_trip(parse("a = COMPUTE M(1, 0 WHEN < 2)"))


def _round_trip(script: Script) -> None:
    text = format_script(script)
    parsed = parse(text)
    assert parsed == script
    assert format_script(parsed) == text


@_MODEST
@given(scripts, st.randoms(use_true_random=False), st.integers(1, 8))
def test_mutated_text_raises_nothing_but_parse_errors(
    script: Script, chance: random.Random, mutations: int
) -> None:
    _parse_or_explain(_mutated(format_script(script), chance, mutations))


@pytest.mark.soak
@pytest.mark.timeout(1800)
@_AMPLE
@given(scripts, st.randoms(use_true_random=False), st.integers(1, 8))
def test_mutated_text_raises_nothing_but_parse_errors_ten_thousand_times(
    script: Script, chance: random.Random, mutations: int
) -> None:
    _parse_or_explain(_mutated(format_script(script), chance, mutations))


def _mutated(text: str, chance: random.Random, mutations: int) -> str:
    for _ in range(mutations):
        start = chance.randrange(len(text) + 1)
        end = min(len(text), start + chance.choice([0, 0, 1, 5]))
        text = text[:start] + chance.choice(["", " ", *_SNIPPETS]) + text[end:]
    return text


@settings(max_examples=200)
@given(
    st.sampled_from(["", "a = COMPUTE ", "a = COMPUTE 1 WHEN ", "a = COMPUTE AVG(cpu "]),
    st.text() | st.lists(st.sampled_from([*_SNIPPETS, "x"])).map(" ".join),
)
def test_any_text_raises_nothing_but_parse_errors(start: str, rest: str) -> None:
    _parse_or_explain(start + rest)


def _parse_or_explain(text: str) -> None:
    try:
        script = parse(text)
    except ParseError as error:
        problems = error.problems
    else:
        assert parse(format_script(script)) == script
        laid = format_text(text)
        assert parse(laid) == script
        assert format_text(laid) == laid
        return
    assert problems
    for problem in problems:
        assert problem.message in render(problem, text)
        _assert_inside(problem.line, problem.column, text)


def _assert_inside(line: int, column: int, text: str) -> None:
    lines = text.split("\n")
    assert 1 <= line <= len(lines)
    assert 1 <= column <= len(lines[line - 1]) + 1


@pytest.mark.parametrize("text", ["a = COMPUTE SUM('\ud800')", "\ud800", "a = COMPUTE \udfff"])
def test_half_characters_are_problems(text: str) -> None:
    with pytest.raises(ParseError):
        parse(text)
