"""Estimators of the sum and the mean of stratified samples, with error bounds.

The estimators follow ApproxIoT (Wen, Quoc, Bhatotia, Chen and Lee, "ApproxIoT: Approximate
Analytics for Edge Computing", ICDCS 2018, sections III and IV). There, a node that receives c
points of a stratum and selects N of these points multiplies the weight of the selected points by
max(1, c / N). Here, a sample contains the number of points of each stratum at the source. The
weight is this number divided by the number of selected points, which equals the product of the
factors of any number of nodes.

SUM and AVG have bounds; the minimum and the maximum of a sample have no bounds.
"""

import math
from dataclasses import dataclass

import msgspec
import numpy as np

from analytics_worker.sampling.sampling_keys import Floats, Ints
from analytics_worker.sampling.student import t_quantile

_MAX_VARIANCE = 1e150
"""The greatest variance for which bounds are computed, since its square does not overflow."""


@dataclass(frozen=True, slots=True, eq=False)
class Sample:
    """A sample of points.

    - ``counts``: the number of points of each stratum, sampled or not.
    - ``indices``, ``values``: the stratum and the value of each sampled point.
    - ``chances``: the sampling probability of each sampled point; only ratios within a stratum
      matter.
    - ``levels``: the predicted value of each sampled point; 0 without a prediction.
    - ``predicted``: the sum of predictions over all points, sampled or not.
    """

    counts: Ints
    indices: Ints
    values: Floats
    chances: Floats
    levels: Floats
    predicted: float

    @property
    def seen(self) -> int:
        """The number of all points, sampled or not."""
        return int(self.counts.sum())


class Estimate(msgspec.Struct, frozen=True):
    """An estimate and its confidence interval; bounds are None if the variance is unknown."""

    value: float
    low: float | None
    high: float | None
    confidence: float


def total(sample: Sample, confidence: float) -> Estimate:
    """Return the estimated SUM of all points.

    Raises ``ValueError`` for a non-empty stratum without a sampled point. The bounds follow from
    stratified sampling, with the finite population correction (Cochran, "Sampling Techniques",
    1977, section 5.6) and Satterthwaite's degrees of freedom. With predictions, the estimator is
    the difference estimator (Särndal, Swensson and Wretman, "Model Assisted Survey Sampling", 1992,
    section 6.3).
    """
    size, counts, indices = len(sample.counts), sample.counts, sample.indices
    selected = np.bincount(indices, minlength=size)
    if np.any((selected == 0) & (counts > 0)):
        raise ValueError("a stratum without a sampled point has no estimate")
    partial = selected < counts
    weights = _weights(sample)
    with np.errstate(over="ignore", invalid="ignore"):
        deviations = sample.values - sample.levels
        sums = np.bincount(indices, weights=weights * deviations, minlength=size)
        value = sample.predicted + float(sums.sum())
        squares = (deviations - (sums / np.maximum(counts, 1))[indices]) ** 2
        squares *= weights * np.maximum(weights - 1, 0)
        each = (
            np.bincount(indices, weights=squares, minlength=size)
            * selected
            / np.maximum(selected - 1, 1)
        )
    variances = each[partial]
    # The variance cannot be estimated from a single sampled point of several.
    if np.any(partial & (selected == 1)) or not variances.sum() < _MAX_VARIANCE:
        return Estimate(value, None, None, confidence)
    off, variance = 0.0, float(variances.sum())
    if variance > 0:
        spread = float((variances**2 / (selected[partial] - 1)).sum())
        off = t_quantile(confidence, max(1, int(variance**2 / spread))) * math.sqrt(variance)
    return Estimate(value, value - off, value + off, confidence)


def _weights(sample: Sample) -> Floats:
    """Return the weight of each sampled point.

    The weights of the sampled points of a stratum add up to the number of all points of the
    stratum.
    """
    size, indices = len(sample.counts), sample.indices
    least = np.ones(size)
    np.minimum.at(least, indices, sample.chances)
    # Weights of equal chances are exactly 1 before they are scaled.
    weights = least[indices] / sample.chances
    sums = np.bincount(indices, weights=weights, minlength=size)
    scaled: Floats = weights * (sample.counts[indices] / sums[indices])
    return scaled


def mean(sample: Sample, confidence: float) -> Estimate:
    """Return the estimated AVG of all points; there must be at least one point.

    Raises the same errors as ``total``; bounds are computed in the same way.
    """
    whole, seen = total(sample, confidence), sample.seen
    if whole.low is None or whole.high is None:
        return Estimate(whole.value / seen, None, None, confidence)
    return Estimate(whole.value / seen, whole.low / seen, whole.high / seen, confidence)
