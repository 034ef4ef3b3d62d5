import math

import pyarrow as pa
import pytest

from analytics.plan.expressions import (
    And,
    Arithmetic,
    Attribute,
    Comparison,
    Expression,
    Literal,
    Measure,
    Membership,
    Negation,
    Not,
    Source,
)
from analytics.plan.functions import Function
from analytics.plan.nodes import Insight, Pane, Plan, Window
from analytics_worker.evaluate.composition import compose
from analytics_worker.evaluate.finalize import WINDOWED
from analytics_worker.evaluate.insight_values import INSIGHT_VALUES
from analytics_worker.stateful.state_table import StateTable

PANE = Pane(id="p", source=Source("cpu"), by=("region",), width_ms=1000)
WINDOWS = tuple(
    Window(id=name, pane="p", size_ms=size, every_ms=1000)
    for name, size in (("u", 1000), ("v", 2000))
)
NORTH, SOUTH = '{"region":"north"}', '{"region":"south"}'


def windowed(*rows: tuple[int, int, str, float, int, float, float]) -> pa.Table:
    return pa.Table.from_pylist(
        [dict(zip(WINDOWED.names, row, strict=False)) for row in rows], WINDOWED
    )


DATA = windowed(
    (0, 1000, NORTH, 10.0, 4, 1.0, 5.0),
    (0, 1000, SOUTH, 6.0, 2, 2.0, 4.0),
    (1, 1000, NORTH, 30.0, 6, 0.0, 9.0),
    (0, 2000, NORTH, 8.0, 2, 3.0, 5.0),
)


def results(
    expression: Expression, condition: Expression | None = None, since: int = 0
) -> list[tuple[int, str, float]]:
    insight = Insight(
        uid="i", expression=expression, by=("region",), every_ms=1000, since=since, filter=condition
    )
    plan = Plan(insights=(insight,), windows=WINDOWS, panes=(PANE,))
    composed = compose(DATA, plan, StateTable())
    assert composed.schema == INSIGHT_VALUES
    return sorted((r["ts"], r["key"], r["value"]) for r in composed.to_pylist())


@pytest.mark.parametrize(
    ("function", "expected"),
    [("SUM", [10.0, 6.0, 8.0]), ("COUNT", [4.0, 2.0, 2.0]), ("MIN", [1.0, 2.0, 3.0]),
     ("MAX", [5.0, 4.0, 5.0]), ("AVG", [2.5, 3.0, 4.0])],
)  # fmt: skip
def test_measures(function: Function, expected: list[float]) -> None:
    assert [value for _, _, value in results(Measure(function, "u"))] == expected


def test_operands_are_joined_by_key_and_tick() -> None:
    ratio = Arithmetic("/", Measure("SUM", "u"), Measure("SUM", "v"))
    assert results(ratio) == [(1000, NORTH, 10 / 30)]


def test_constants_and_signs_are_evaluated() -> None:
    headroom = Arithmetic("-", Literal(100.0), Negation(Measure("AVG", "u")))
    assert results(headroom)[0] == (1000, NORTH, 102.5)


def test_division_by_zero_yields_no_row() -> None:
    assert results(Arithmetic("/", Measure("SUM", "u"), Literal(0.0))) == []
    by_minimum = Arithmetic("/", Measure("SUM", "v"), Measure("MIN", "v"))
    assert results(by_minimum) == []


def test_value_that_is_not_finite_yields_no_row() -> None:
    huge = Arithmetic("*", Literal(1e308), Arithmetic("*", Measure("SUM", "u"), Literal(1e9)))
    assert results(huge) == []
    assert not any(math.isinf(value) for _, _, value in results(Measure("SUM", "u")))


def test_filters_on_the_result_another_window_and_the_key() -> None:
    average = Measure("AVG", "u")
    assert results(average, Comparison(">", average, Literal(2.7))) == [
        (1000, SOUTH, 3.0),
        (2000, NORTH, 4.0),
    ]
    assert results(average, Comparison("<", average, Measure("AVG", "v"))) == [(1000, NORTH, 2.5)]
    assert results(average, Membership(Attribute("region"), ("south",))) == [(1000, SOUTH, 3.0)]
    both = And(
        Not(Comparison("==", Attribute("region"), Literal("south"))),
        Comparison(">", average, Literal(3.0)),
    )
    assert results(average, both) == [(2000, NORTH, 4.0)]
    assert results(average, Membership(average, (3.0, 4.0))) == [
        (1000, SOUTH, 3.0),
        (2000, NORTH, 4.0),
    ]


def test_ticks_up_to_since_are_left_out() -> None:
    assert [tick for tick, _, _ in results(Measure("SUM", "u"), since=1000)] == [2000]


def test_no_windows_yield_no_results() -> None:
    plan = Plan(insights=(), windows=WINDOWS, panes=(PANE,))
    assert compose(WINDOWED.empty_table(), plan, StateTable()).num_rows == 0
