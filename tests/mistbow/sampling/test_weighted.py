import math

import numpy as np
import pytest

from mistbow.sampling.weighted import Estimate, Sample, mean, total

CONFIDENCE = 0.95


def sample(counts: list[int], kept: list[list[float]]) -> Sample:
    """Return a sample that has these values of its strata."""
    places = np.repeat(np.arange(len(kept)), [len(values) for values in kept])
    values = [value for values in kept for value in values]
    return Sample(np.array(counts), places, np.array(values, np.float64))


def test_estimates_are_those_of_the_textbook() -> None:
    kept = np.array([10.0, 14])
    estimate = total(sample([4, 2], [[*kept], [1, 2]]), 0.5)
    # N² (1 - n / N) s² / n, and one degree of freedom
    error = math.sqrt(16 * (1 - 2 / 4) * kept.var(ddof=1) / 2)
    assert estimate.value == pytest.approx(4 * kept.mean() + 3)
    assert estimate.high == pytest.approx(4 * kept.mean() + 3 + error)


def test_what_is_not_known_is_not_stated() -> None:
    one_of_many = mean(sample([9], [[4]]), CONFIDENCE)
    assert (one_of_many.value, one_of_many.low, one_of_many.high) == (4, None, None)
    for scale in (1e100, 1e300):
        overflow = total(sample([4], [[scale, 4 * scale]]), CONFIDENCE)
        assert overflow.low is None
    with pytest.raises(ValueError, match="no point is kept"):
        total(sample([1], [[]]), CONFIDENCE)
    everything = mean(sample([1, 2], [[0], [1, 2]]), CONFIDENCE)
    assert everything == Estimate(1, 1, 1, CONFIDENCE)
