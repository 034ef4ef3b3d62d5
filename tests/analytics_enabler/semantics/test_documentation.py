"""Every example of the language's reference can be deployed."""

import re
from pathlib import Path

import pytest

from analytics_enabler.semantics import check
from grammar import format_script, parse

PAGE = (Path(__file__).parents[3] / "docs" / "language.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```mistbow\n(.*?)```", PAGE, flags=re.DOTALL)


@pytest.mark.parametrize("text", EXAMPLES)
def test_example(text: str) -> None:
    assert check(text).problems == ()
    script = parse(text)
    assert parse(format_script(script)) == script


def test_there_are_examples() -> None:
    assert len(EXAMPLES) >= 10
