"""Calls of operators of other packages."""

from pathlib import Path

import msgspec
import pytest

from analytics.plan.expressions import Aggregate, Reduction
from analytics.plan.functions import UserOperator
from analytics.plan.text import expression_text
from analytics_enabler.semantics import check
from analytics_enabler.semantics.definition import Definition
from tests.support.operators import install_example_operators, install_odd_operators

pytestmark = pytest.mark.usefixtures("processes")


@pytest.fixture
def example(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install_example_operators(tmp_path, monkeypatch)


@pytest.mark.usefixtures("example")
def test_definition_has_newest_version_of_operator() -> None:
    (definition,) = check(
        "a = COMPUTE trimmed_mean[0.2](cpu, 1 MINUTE) BY node EVERY 5 s"
    ).definitions
    aggregate = definition.expression
    assert isinstance(aggregate, Aggregate)
    assert (aggregate.function, aggregate.parameters) == (
        UserOperator("TRIMMED_MEAN", "2.0"), (0.2,),
    )  # fmt: skip
    assert expression_text(aggregate, aggregate.by).startswith("TRIMMED_MEAN 2.0[0.2](cpu")
    # It is stored so, for what runs to go on with the version that it has.
    stored = msgspec.json.encode(definition)
    assert msgspec.json.decode(stored, type=Definition) == definition
    (two,) = check("a = COMPUTE Gap(cpu, mem, 1 MINUTE) / 2 EVERY 5 s").definitions
    assert "GAP 1.0(cpu, mem" in expression_text(two.expression)
    (outer,) = check("a = COMPUTE TRIMMED_MEAN(AVG(cpu, 5 s) BY node) EVERY 5 s").definitions
    assert isinstance(outer.expression, Reduction)
    assert outer.expression.function == UserOperator("TRIMMED_MEAN", "2.0")


@pytest.mark.usefixtures("example")
@pytest.mark.parametrize(
    ("call", "message", "hint"),
    [
        ("trimmed_men(x)", "no function `TRIMMED_MEN`", "Did you mean `TRIMMED_MEAN`?"),
        ("gap(x)", "GAP takes two metrics, not one", "Write `GAP(x, y)`."),
        ("trimmed_mean(x, y)", "takes one value, not 2", "Write `TRIMMED_MEAN(x)`"),
        ("trimmed_mean[1, 2](x)", "takes one parameter", "Write `TRIMMED_MEAN[share](…)`."),
        ("trimmed_mean[5 s](x)", "`share` must be a number, not 5 SECONDS", "Write a number."),
        ("gap[1](x, y)", "GAP takes no parameter", "Remove it."),
    ],
)
def test_error_of_operator_call(call: str, message: str, hint: str) -> None:
    (problem,) = check(f"a = COMPUTE {call} EVERY 5 s").problems
    assert message in problem.message
    assert hint in (problem.hint or "")


@pytest.mark.usefixtures("example")
def test_operator_over_sample_is_an_error() -> None:
    text = "a = COMPUTE trimmed_mean(x) EVERY 5 s WITH SAMPLE 0.5"
    (problem,) = check(text).problems
    assert (problem.column, problem.length) == (13, len("trimmed_mean"))
    assert "all points are needed" in problem.message


@pytest.mark.usefixtures("example")
def test_operator_of_two_metrics_with_adam_is_an_error() -> None:
    (problem,) = check("a = COMPUTE gap(x, y) EVERY 5 s WITH ADAM").problems
    assert (problem.column, problem.length) == (13, len("gap"))
    assert problem.message.startswith("GAP needs all points")


def test_hint_of_unknown_function_has_unusable_operators(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install_odd_operators(tmp_path, monkeypatch)
    (problem,) = check("a = COMPUTE greedy(x) EVERY 5 s").problems
    assert "odd_operators:Greedy cannot be used: ValueError: `compute` takes *args" in (
        problem.hint or ""
    )
