import statistics

import duckdb
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analytics_worker.operators.moments import (
    Moments,
    geometric_mean,
    merge,
    moments_of,
    sdev,
    variance,
)
from analytics_worker.operators.points import Floats
from tests.analytics_worker.operators.values import CALM, CLOSE, arrays, ask


def together(parts: list[Floats]) -> Moments:
    each = [moments_of(part) for part in parts]
    fields = ("count", "mean", "m2", "log_mean")
    return Moments(*(np.concatenate([getattr(one, field) for one in each]) for field in fields))


@CALM
@given(st.lists(st.tuples(st.integers(0, 2), arrays(most=8)), min_size=1, max_size=12))
def test_merged_moments_equal_duckdb_over_all_values(
    connection: duckdb.DuckDBPyConnection, parts: list[tuple[int, Floats]]
) -> None:
    names, groups = np.unique([group for group, _ in parts], return_inverse=True)
    merged = merge(together([values for _, values in parts]), groups, len(names))

    rows = ask(
        connection,
        "select count(*), avg(x), var_pop(x), stddev_pop(x),"
        " case when min(x) > 0 then geomean(case when x > 0 then x end) else 'nan' end"
        " from given group by g order by g",
        g=np.repeat(groups, [len(values) for _, values in parts]),
        x=np.concatenate([values for _, values in parts]),
    )
    ours = (merged.count, merged.mean, variance(merged), sdev(merged), geometric_mean(merged))
    for found, expected in zip(zip(*ours, strict=True), rows, strict=True):
        # A mean or a variance of 0 is so to what the sums of both lose.
        assert found == pytest.approx(expected, rel=CLOSE, abs=1e-12, nan_ok=True)


def test_variance_is_exact_for_a_small_spread_far_from_zero() -> None:
    values = 1e9 + np.random.default_rng(7).normal(size=1000)
    exact = float(statistics.pvariance(values.tolist()))
    assert variance(moments_of(values))[0] == pytest.approx(exact, rel=CLOSE)
    assert variance(moments_of(np.full(3, 0.1)))[0] == 0


@pytest.mark.parametrize("least", [0.0, -1.0])
def test_geometric_mean_has_no_value_if_a_value_is_not_positive(least: float) -> None:
    with_it, positive = np.array([2.0, least]), np.array([2.0, 8.0])
    assert geometric_mean(moments_of(positive))[0] == pytest.approx(4)
    both = merge(together([positive, with_it]), np.array([0, 0]), 1)
    assert np.isnan(geometric_mean(both)[0])
