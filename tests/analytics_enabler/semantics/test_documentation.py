"""The language's reference: its examples can be deployed, and it documents every function."""

import re
from pathlib import Path

import pytest

from analytics.plan.functions import ACCUMULATED, BUILT_IN, FUNCTIONS, SampleKind
from analytics_enabler.semantics import check
from grammar import ast, format_script, parse
from grammar.trees import walk

PAGE = (Path(__file__).parents[3] / "docs" / "language.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```mistbow\n(.*?)```", PAGE, flags=re.DOTALL)


@pytest.mark.parametrize("text", EXAMPLES)
def test_example(text: str) -> None:
    # The check also reports bare names that it reads as texts.
    assert [each for each in check(text).problems if "as a text" not in each.message] == []
    script = parse(text)
    assert parse(format_script(script)) == script


def test_there_are_examples() -> None:
    assert len(EXAMPLES) >= 10


@pytest.mark.parametrize("name", sorted(BUILT_IN))
def test_function_is_named_and_called_in_an_example(name: str) -> None:
    assert re.search(rf"`{name}\b", PAGE)
    nodes = (node for text in EXAMPLES for each in parse(text).statements for node in walk(each))
    assert any(isinstance(node, ast.FunctionCall) and node.function == name for node in nodes)


@pytest.mark.parametrize(
    ("first", "kinds"), [("SUM", {"bounded"}), ("MIN", {"any"}), ("SDEV", {"even"})]
)
def test_samples_that_functions_are_defined_over(first: str, kinds: set[SampleKind]) -> None:
    table = PAGE[PAGE.index("| Function | Value over a sample |") :]
    (row,) = re.findall(rf"^\| (`{first}`.*?) \|", table, flags=re.MULTILINE)
    exact = {"COUNT"} if kinds == {"bounded"} else set()  # COUNT has a row of its own
    documented = set(re.findall(r"`(\w+)", row)) | exact
    assert documented == {name for name, spec in FUNCTIONS.items() if spec.sample in kinds}


def test_functions_that_adam_excludes_are_documented() -> None:
    text = " ".join(PAGE.split())
    (listed,) = re.findall(r"depend on the spacing of points: ([A-Z_, ]+),", text)
    assert set(listed.split(", ")) == {name for name, spec in FUNCTIONS.items() if spec.spacing}


def test_accumulated_functions_are_those_of_their_table() -> None:
    section = PAGE[PAGE.index("## Accumulated values") : PAGE.index("## Expressions")]
    documented = set(re.findall(r"`(\w+)(?:\[α\])?\(x\)`", section))
    assert documented == ACCUMULATED
