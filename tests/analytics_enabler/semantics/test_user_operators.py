"""Insights that call operators of other packages."""

from pathlib import Path

import msgspec
import pytest

from analytics_enabler.plan_text import expression_text
from analytics_enabler.semantics import check
from analytics_enabler.semantics.definition import Definition
from mistbow.plan.expressions import Aggregate, Reduction, UserOperator
from tests.support.operators import know_example, know_odd_ones


@pytest.fixture
def example(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    know_example(tmp_path, monkeypatch)


@pytest.mark.usefixtures("example")
def test_the_newest_version_is_a_part_of_what_an_insight_means() -> None:
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
        ("gap(x)", "GAP is of two metrics; here it has only one", "Write `GAP(x, y)`."),
        ("trimmed_mean(x, y)", "is of one value; here it has 2", "Write `TRIMMED_MEAN(x)`."),
        ("trimmed_mean[1, 2](x)", "takes one parameter", "Write `TRIMMED_MEAN[share](…)`."),
        ("trimmed_mean[5 s](x)", "5 SECONDS is no `share`", "Write a number."),
        ("gap[1](x, y)", "GAP takes no parameter", "Leave it out."),
        ("gap(AVG(x), y)", "GAP is of metrics only", "Name a metric here, as in"),
    ],
)
def test_a_call_that_does_not_fit_is_refused(call: str, message: str, hint: str) -> None:
    (problem,) = check(f"a = COMPUTE {call} EVERY 5 s").problems
    assert message in problem.message
    assert hint in (problem.hint or "")


@pytest.mark.usefixtures("example")
def test_an_operator_needs_all_points() -> None:
    text = "a = COMPUTE trimmed_mean(x) EVERY 5 s WITH SAMPLE 0.5"
    (problem,) = check(text).problems
    assert (problem.column, problem.length) == (13, len("trimmed_mean"))
    assert "needs its points" in problem.message


@pytest.mark.usefixtures("example")
def test_an_operator_of_two_metrics_needs_the_points_of_both() -> None:
    (problem,) = check("a = COMPUTE gap(x, y) EVERY 5 s WITH ADAM").problems
    assert (problem.column, problem.length) == (13, len("gap"))
    assert problem.message.startswith("GAP needs points as far apart")


def test_what_cannot_be_used_is_told_where_it_is_missed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    know_odd_ones(tmp_path, monkeypatch)
    (problem,) = check("a = COMPUTE greedy(x) EVERY 5 s").problems
    assert "odd_operators:Greedy: ValueError: its `compute` takes *args" in (problem.hint or "")
