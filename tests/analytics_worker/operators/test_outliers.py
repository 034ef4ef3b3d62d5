import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from analytics_worker.operators.outliers import pmcod
from analytics_worker.operators.points import Floats
from tests.analytics_worker.operators.values import CALM


def brute_force(values: Floats, k: int, r: float) -> list[bool]:
    """Return for each value whether fewer than ``k`` other values are at most ``r`` away."""
    return [
        sum(abs(one - other) <= r for at, other in enumerate(values) if at != place) < k
        for place, one in enumerate(values)
    ]


TENTHS = st.integers(0, 30).map(lambda number: number / 10)


@CALM
@given(
    st.lists(st.one_of(TENTHS, st.floats(-1e300, 1e300)), max_size=30),
    st.integers(1, 6),
    st.one_of(TENTHS.filter(bool), st.floats(1e-3, 1e300)),
)
# 0.3 - 0.2 is less than 0.1, and 0.3 - 0.1 as well less than 0.2: the bound is what is subtracted.
@example([0.1, 0.3, 0.4], 1, 0.2)
@example([0.7, 0.8, 0.8, 0.9], 3, 0.1)
def test_outliers_are_those_of_all_pairs(given: list[float], k: int, r: float) -> None:
    values = np.array(given, np.float64)
    assert pmcod(values, k, r).tolist() == brute_force(values, k, r)
