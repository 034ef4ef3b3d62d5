import math
from dataclasses import replace

import numpy as np
import pytest

from analytics_worker.sampling.estimators import Estimate, Sample, mean, total
from analytics_worker.sampling.student import t_quantile

CONFIDENCE = 0.95


def sample(counts: list[int], sampled: list[list[float]]) -> Sample:
    """Return a sample of strata.

    ``counts``: the number of all values in each stratum; ``sampled``: the sampled values in each
    stratum.
    """
    indices = np.repeat(np.arange(len(sampled)), [len(values) for values in sampled])
    values = [value for values in sampled for value in values]
    alike, nothing = np.ones(len(values)), np.zeros(len(values))
    return Sample(np.array(counts), indices, np.array(values, np.float64), alike, nothing, 0.0)


def test_estimates_are_those_of_the_textbook() -> None:
    sampled = np.array([10.0, 14])
    estimate = total(sample([4, 2], [[*sampled], [1, 2]]), 0.5)
    # N² (1 - n / N) s² / n, and one degree of freedom
    error = math.sqrt(16 * (1 - 2 / 4) * sampled.var(ddof=1) / 2)
    assert estimate.value == pytest.approx(4 * sampled.mean() + 3)
    assert estimate.high == pytest.approx(4 * sampled.mean() + 3 + error)


def test_bounds_are_missing_where_they_are_unknown() -> None:
    one_of_many = mean(sample([9], [[4]]), CONFIDENCE)
    assert (one_of_many.value, one_of_many.low, one_of_many.high) == (4, None, None)
    for scale in (1e100, 1e300):
        overflow = total(sample([4], [[scale, 4 * scale]]), CONFIDENCE)
        assert overflow.low is None
    with pytest.raises(ValueError, match="without a sampled point"):
        total(sample([1], [[]]), CONFIDENCE)
    everything = mean(sample([1, 2], [[0], [1, 2]]), CONFIDENCE)
    assert everything == Estimate(1, 1, 1, CONFIDENCE)


def _few_points(sampled: list[list[float]], lows: list[float], highs: list[float]) -> int | None:
    """Return ``few_points`` of a sample of strata of 40 points each; unsampled extremes given."""
    one = sample([40] * len(sampled), sampled)
    known = replace(one, lows=np.array(lows), highs=np.array(highs))
    found = {estimate(known, CONFIDENCE).few_points for estimate in (total, mean)}
    assert len(found) == 1
    return found.pop()


def test_bounds_of_few_points_are_marked() -> None:
    smooth, few = list(np.linspace(9, 11, 20)), [9.5, 10.0, 10.5]
    assert _few_points([smooth], [9.0], [11.0]) is None
    assert _few_points([smooth, few], [9.0, 9.0], [11.0, 11.0]) == 3
    # A rare, extreme value that the sample lacks: 20 points are too few.
    assert _few_points([smooth], [9.0], [500.0]) == 20
    # Equal values need no variance, nor does a stratum whose points are all sampled.
    assert _few_points([[10.0, 10.0]], [10.0], [10.0]) is None
    assert total(sample([3], [few]), CONFIDENCE).few_points is None
    # The extremes are unknown, as in panes of earlier versions.
    assert total(sample([40], [few]), CONFIDENCE).few_points == 3
    assert total(sample([40], [smooth]), CONFIDENCE).few_points is None


def test_points_with_different_chances_are_weighted_and_correct_the_predicted_total() -> None:
    # 30 points at 100, of which one in ten is kept, and 8 at 1000, of which one in two.
    chances, levels = (
        np.array([0.1, 0.1, 0.1, 0.5, 0.5, 0.5, 0.5]),
        np.repeat([100.0, 1000], [3, 4]),
    )
    right = Sample(np.array([38]), np.zeros(7, np.int64), levels, chances, levels, 11_000.0)
    assert total(right, CONFIDENCE) == Estimate(11_000, 11_000, 11_000, CONFIDENCE, 7)
    values = levels + np.array([1, 2, 3, 10, 20, 30, 40])
    weights = 1 / chances
    off = (weights * (values - levels)).sum()
    variance = (weights * (weights - 1) * (values - levels - off / 38) ** 2).sum() * 7 / 6
    estimate = total(Sample(np.array([38]), right.indices, values, chances, levels, 11_000.0), 0.5)
    assert estimate.value == pytest.approx(11_000 + off)
    assert estimate.high == pytest.approx(estimate.value + t_quantile(0.5, 6) * math.sqrt(variance))
