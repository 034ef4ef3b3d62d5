import duckdb
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from analytics_worker.operators.order import correlation, histogram, median, mode, percentile, top_k
from analytics_worker.operators.points import Floats, Points
from tests.analytics_worker.operators.values import CALM, CLOSE, EVEN, arrays, ask


@CALM
@given(arrays(), st.floats(0, 100), st.integers(1, 50))
def test_order_is_as_in_duckdb(
    connection: duckdb.DuckDBPyConnection, values: Floats, p: float, k: int
) -> None:
    [(middle, quantile, descending)] = ask(
        connection,
        "select median(x), quantile_cont(x, $p), list_reverse_sort(list(x)) from given",
        {"p": p / 100},
        x=values,
    )
    [(frequent, _)] = ask(
        connection,
        "select x, count(*) n from given group by x order by n desc, x limit 1",
        x=values,
    )
    assert median(values) == pytest.approx(middle, rel=CLOSE)
    assert percentile(values, p) == pytest.approx(quantile, rel=CLOSE, abs=1e-9)
    assert mode(values) == frequent
    assert top_k(values, k).tolist() == descending[:k]


def test_functions_of_order_have_no_value_without_values() -> None:
    nothing = np.array([])
    assert (median(nothing), percentile(nothing, 9), mode(nothing)) == (None, None, None)
    assert top_k(nothing, 2).tolist() == []


@CALM
@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1), st.integers(1, 20))
@example([1e16, 1e16 + 2], 10)
@example([-1.7e308, 0.0, 1.7e308], 3)
@example([-np.finfo(float).max, np.finfo(float).max], 3)
@example([5.0, 5.0], 4)
def test_a_histogram_counts_each_value_between_its_edges(given: list[float], n: int) -> None:
    values = np.array(given)
    counts, edges = histogram(values, n)

    assert (edges[0], edges[-1]) == (min(given), max(given))
    assert len(edges) == n + 1
    assert (np.diff(edges / 2) >= 0).all()
    for place in range(n - 1):
        inside = (values >= edges[place]) & (values < edges[place + 1])
        assert counts[place] == inside.sum()
    assert counts.sum() == len(values)


def test_bins_are_equally_wide_and_the_last_is_closed() -> None:
    counts, edges = histogram(np.array([0.0, 1.0, 2.5, 4.0, 4.0]), 4)
    assert counts.tolist() == [1, 1, 1, 2]
    assert edges.tolist() == [0, 1, 2, 3, 4]
    assert histogram(np.array([5.0, 5.0]), 2)[0].tolist() == [0, 2]


MEASURED = st.lists(st.tuples(st.integers(0, 4), st.sampled_from("ab"), EVEN), max_size=12)


def measured(rows: list[tuple[int, str, float]]) -> Points:
    ts, entities, values = zip(*rows, strict=True) if rows else ([], [], [])
    return Points(
        np.array(ts, np.int64), np.array(values, np.float64), np.array(entities, np.dtype("U1"))
    )


@CALM
@given(MEASURED, MEASURED)
def test_correlation_is_that_of_an_inner_join_in_duckdb(
    connection: duckdb.DuckDBPyConnection,
    left: list[tuple[int, str, float]],
    right: list[tuple[int, str, float]],
) -> None:
    rows = [(0, *row) for row in left] + [(1, *row) for row in right]
    side, ts, entity, value = zip(*rows, strict=True) if rows else ([], [], [], [])
    [(pairs, varies, expected)] = ask(
        connection,
        "select count(*), max(x.value) - min(x.value) > 1e-14 * max(abs(x.value))"
        " and max(y.value) - min(y.value) > 1e-14 * max(abs(y.value)),"
        " corr(x.value, y.value)"
        " from given x join given y on x.ts = y.ts and x.entity = y.entity"
        " where x.side = 0 and y.side = 1",
        side=np.array(side, np.int64),
        ts=np.array(ts, np.int64),
        entity=np.array(entity, np.dtype("U1")).tolist(),
        value=np.array(value, np.float64),
    )
    found = correlation(measured(left), measured(right))
    if pairs < 2 or not varies:
        assert found is None
    else:
        assert found == pytest.approx(expected, rel=CLOSE, abs=CLOSE)


@pytest.mark.parametrize(("scale", "origin"), [(1e-200, 0), (1e300, 0), (1.0, 1e12), (1e-320, 0)])
def test_correlation_is_right_for_values_of_any_size(scale: float, origin: float) -> None:
    numbers = origin + scale * np.array([1.0, 2.0, 3.0, 5.0])
    ts, entities = np.arange(4), np.zeros(4, np.int64)
    x, y = Points(ts, numbers, entities), Points(ts, np.array([2.0, 4.0, 6.0, 10.0]), entities)
    assert correlation(x, y) == pytest.approx(1, rel=CLOSE if scale > 1e-300 else 1e-3)
    assert correlation(x, Points(ts, np.full(4, 0.1), entities)) is None


@pytest.mark.parametrize("origin", [0.1, 5.0, -7e12])
def test_values_that_differ_by_rounding_have_no_correlation(origin: float) -> None:
    ts, entities = np.arange(4), np.zeros(4, np.int64)
    varied = Points(ts, np.array([1.0, 2.0, 3.0, 5.0]), entities)
    rounded = origin * (1 + np.array([0, 1, 2, 40]) * 2.0**-52)
    assert correlation(varied, Points(ts, rounded, entities)) is None
    assert correlation(Points(ts, rounded, entities), varied) is None
    distinct = origin * (1 + np.array([0, 1, 2, 90]) * 2.0**-52)
    assert correlation(varied, Points(ts, distinct, entities)) is not None
