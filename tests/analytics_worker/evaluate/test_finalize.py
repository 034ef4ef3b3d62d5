"""Finalizers: each function has a finalizer, and RATE equals examples and the oracle."""

# ruff: noqa: S608 - the numbers are drawn in the test
import duckdb
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analytics.plan.functions import ACCUMULATED, FUNCTIONS
from analytics_worker.evaluate.finalize import (
    _OF_CONTENTS,
    _OF_LISTS,
    _OF_POINTS,
    finalize_points,
)
from analytics_worker.operators.points import Points
from tests.oracle.functions import FORMULAS


def test_every_function_has_a_finalizer_over_what_its_panes_carry() -> None:
    windowed = FUNCTIONS.keys() - ACCUMULATED
    assert {name for name in windowed if FUNCTIONS[name].merges} == _OF_CONTENTS.keys()
    assert windowed - _OF_CONTENTS.keys() <= _OF_LISTS.keys() | _OF_POINTS.keys()


def test_every_function_over_values_has_a_finalizer_of_lists() -> None:
    over_values = {name for name, spec in FUNCTIONS.items() if spec.over_values} - {"LATEST"}
    assert over_values <= _OF_LISTS.keys()


def test_every_function_of_windows_has_a_finalizer_of_windows_at_points() -> None:
    assert _OF_LISTS.keys() | _OF_POINTS.keys() == FUNCTIONS.keys() - ACCUMULATED


Point = tuple[str, int, float]
"""A point: entity, time (ms), value."""


def rate(*points: Point) -> float | None:
    entities, ts, values = (np.array(each) for each in zip(*points, strict=True))
    entities = entities.astype(object)
    order = np.lexsort((values, ts))
    window = Points(ts[order], values[order].astype(np.float64), entities[order])
    found: float | None = finalize_points("RATE", [[window]], ()).value[0].as_py()
    return found


@pytest.mark.parametrize(
    ("points", "expected"),
    [
        ([("a", 0, 10.0)], None),
        ([("a", 0, 10.0), ("b", 1000, 20.0)], None),
        ([("a", 0, 10.0), ("a", 0, 20.0)], None),
        ([("a", 0, 10.0), ("a", 2000, 20.0)], 5.0),
        ([("a", 2000, 20.0), ("a", 0, 10.0)], 5.0),
        ([("a", 0, 10.0), ("a", 1000, 10.0)], 0.0),
        ([("a", 0, 10.0), ("a", 1000, 15.0), ("a", 2000, 3.0), ("a", 4000, 5.0)], 2.5),
        ([("a", 0, 90.0), ("a", 500, 0.0), ("a", 500, 100.0), ("a", 1000, 5.0)], 15.0),
        ([("a", 0, 0.0), ("b", 0, 7.0), ("a", 1000, 4.0), ("b", 500, 8.0), ("c", 9, 1.0)], 6.0),
    ],
)
def test_rate(points: list[Point], expected: float | None) -> None:
    assert rate(*points) == expected


@given(
    st.lists(
        st.tuples(st.sampled_from("abc"), st.integers(0, 5).map(lambda n: 250 * n),
                  st.integers(-2, 8).map(float)), min_size=1, max_size=12,
    )
)  # fmt: skip
def test_rate_is_that_of_the_oracle(points: list[Point]) -> None:
    rows = ", ".join(f"('{entity}', {ts}::bigint, {value}::double)" for entity, ts, value in points)
    values = f"(values {rows}) points(entity, ts, value)"
    packed = f"select list(struct_pack(entity, ts, value)) as p from {values}"
    with duckdb.connect() as connection:
        sql = f"select {FORMULAS['RATE'](()).value} from ({packed})"
        ((expected,),) = connection.execute(sql).fetchall()
    found = rate(*points)
    assert (found is None) == (expected is None)
    assert found == pytest.approx(expected)


def test_rate_of_huge_values_is_not_finite() -> None:
    assert rate(("a", 0, -1.7e308), ("a", 1, 1.7e308)) == float("inf")
