import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mistbow.sampling.weighted import Estimate, Moments, count, mean, moments, total
from tests.mistbow.sampling.panes import pane

CONFIDENCE = 0.95


def test_weights_are_those_of_the_hierarchy() -> None:
    strata = ["a"] * 40 + ["b"] * 6 + ["c"] * 3
    sample, weights = pane(0, strata, np.arange(49.0)), np.ones(3)
    for size in (20, 5, 4):  # an edge, a region, a cloud
        arrived = sample.kept
        sample = sample.cut(size)
        weights *= np.maximum(1, arrived / size)
    assert sample.weights.tolist() == weights[sample.places].tolist()
    assert set(sample.weights) == {10, 1.5, 1}


def test_estimates_are_those_of_the_textbook() -> None:
    values = np.array([10.0, 12, 14, 16, 1, 2])
    sample = pane(0, ["a"] * 4 + ["b"] * 2, values).cut(np.array([2, 2]))
    a = sample.values[:2]
    found = moments(sample)
    # N² (1 - n / N) s² / n, and one degree of freedom
    error = math.sqrt(16 * (1 - 2 / 4) * a.var(ddof=1) / 2)
    estimate = total(found, 0.5)
    assert estimate is not None
    assert estimate.value == pytest.approx(4 * a.mean() + 3)
    assert estimate.high == pytest.approx(4 * a.mean() + 3 + error)
    assert count(found, 0.5) == Estimate(6, 6, 6, 0.5)


def test_what_is_not_known_is_not_stated() -> None:
    one_of_many = moments(pane(0, ["a"] * 9, np.arange(9.0)).cut(1))
    known = mean(one_of_many, CONFIDENCE)
    assert known is not None
    assert (known.low, known.high) == (None, None)
    for scale in (1e100, 1e300):
        huge = pane(0, ["a"] * 4, np.array([1, 2, 4, 8]) * scale)
        overflow = total(moments(huge.cut(2)), CONFIDENCE)
        assert overflow is not None
        assert overflow.low is None
    assert mean(Moments(), CONFIDENCE) is None
    nothing = replace(pane(0, ["a"], np.ones(1)).pooled(2).cut(0), even=True)
    assert mean(moments(nothing), CONFIDENCE) is None
    with pytest.raises(ValueError, match="no point is kept"):
        moments(pane(0, ["a"], np.ones(1)).cut(0))
    everything = mean(moments(pane(0, ["a", "b", "b"], np.arange(3.0))), CONFIDENCE)
    assert everything == Estimate(1, 1, 1, CONFIDENCE)


@given(st.lists(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=9), min_size=1, max_size=6))
def test_what_panes_come_to_adds_up(panes: list[list[float]]) -> None:
    found = Moments()
    for end, values in enumerate(panes):
        pool = pane(end, ["a"] * len(values), np.array(values)).pooled(math.inf)
        found += moments(replace(pool, even=True))
    everything = [value for values in panes for value in values]
    assert found.count == found.kept == len(everything)
    assert found.loose.mean == pytest.approx(np.mean(everything), abs=1e-6)
    squares = np.var(everything) * len(everything)
    assert found.loose.squares == pytest.approx(squares, rel=1e-9, abs=1e-3)
