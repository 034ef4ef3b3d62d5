"""Every example of the language's reference can be deployed, or is said not to be computed yet."""

import re
from pathlib import Path

import pytest

from analytics_enabler.semantics import check
from grammar import format_script, format_statement, parse

PAGE = (Path(__file__).parents[3] / "docs" / "language.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```mistbow\n(.*?)```", PAGE, flags=re.DOTALL)
LATER = re.findall(r"```mistbow-later\n(.*?)```", PAGE, flags=re.DOTALL)


@pytest.mark.parametrize("text", EXAMPLES)
def test_example(text: str) -> None:
    assert check(text).problems == ()
    script = parse(text)
    assert parse(format_script(script)) == script


@pytest.mark.parametrize("text", LATER)
def test_example_that_is_not_computed_yet(text: str) -> None:
    script = parse(text)
    assert parse(format_script(script)) == script
    assert not any(check(format_statement(statement)).ok for statement in script.statements)


def test_there_are_examples() -> None:
    assert len(EXAMPLES) >= 10
    assert len(LATER) >= 1
