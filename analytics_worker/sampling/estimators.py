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

from analytics_worker.sampling.sampling_keys import Bools, Floats, Ints
from analytics_worker.sampling.student import t_quantile

_MAX_VARIANCE = 1e150
"""The greatest variance for which bounds are computed, since its square does not overflow."""

_MIN_SMOOTH = 10
_MAX_RANGE = 8.0
"""The greatest range of a smooth stratum, relative to the standard deviation of its sampled points.

Of 10,000 normally distributed values, the range is 7.7 standard deviations on average. A greater
range is due to extreme values of which the sample has too few to estimate the variance.
"""


@dataclass(frozen=True, slots=True, eq=False)
class Sample:
    """A sample of points.

    - ``counts``: the number of points of each stratum, sampled or not.
    - ``indices``, ``values``: the stratum and the value of each sampled point.
    - ``chances``: the sampling probability of each sampled point; only ratios within a stratum
      matter.
    - ``levels``: the predicted value of each sampled point; 0 without a prediction.
    - ``predicted``: the sum of predictions over all points, sampled or not.
    - ``lows``, ``highs``: the least and the greatest deviation from the predictions among the
      points of each stratum that are not sampled; NaN: unknown, or there is no such point.
    """

    counts: Ints
    indices: Ints
    values: Floats
    chances: Floats
    levels: Floats
    predicted: float
    lows: Floats | None = None
    highs: Floats | None = None

    @property
    def seen(self) -> int:
        """The number of all points, sampled or not."""
        return int(self.counts.sum())


class Estimate(msgspec.Struct, frozen=True):
    """An estimate and its confidence interval; bounds are None if the variance is unknown.

    ``few_points``: the number of sampled points of the stratum with the fewest, if the variance of
    a stratum could not be estimated well; None: it could.
    """

    value: float
    low: float | None
    high: float | None
    confidence: float
    few_points: int | None = None


def total(sample: Sample, confidence: float) -> Estimate:
    """Return the estimated SUM of all points.

    Raises ``ValueError`` for a non-empty stratum without a sampled point. The bounds follow from
    stratified sampling, with the finite population correction (Cochran, "Sampling Techniques",
    1977, section 5.6) and Satterthwaite's degrees of freedom. With predictions, the estimator is
    the difference estimator (Särndal, Swensson and Wretman, "Model Assisted Survey Sampling", 1992,
    section 6.3). Where rare, extreme values make this variance unreliable, the bounds follow from
    the range of the values, and all bounds respect the extremes of the points that are not sampled.
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
    if not float(each[partial].sum()) < _MAX_VARIANCE:
        return Estimate(value, None, None, confidence)
    spread = _spread(sample, deviations, weights, selected, partial, each)
    if spread is None:
        # The variance cannot be estimated from a single sampled point of several.
        return Estimate(value, None, None, confidence)
    off = spread.half_width(confidence)
    estimate = Estimate(value, value - off, value + off, confidence, spread.few_points)
    return _within(estimate, spread)


@dataclass(frozen=True, slots=True)
class _Spread:
    """The known figures of the error of a total.

    ``variance``, ``freedom``: the estimated variance of the smooth strata, and its degrees of
    freedom. ``proxy``: the variance proxy of the other strata, whose sampled points may lack rare,
    extreme values. ``least``, ``greatest``: bounds of the total that are certain. ``few_points``:
    as in ``Estimate``.
    """

    variance: float
    freedom: int
    proxy: float
    least: float
    greatest: float
    few_points: int | None

    def half_width(self, confidence: float) -> float:
        """Return half the length of a confidence interval.

        For the strata with a proxy, by Serfling's inequality ("Probability inequalities for the sum
        in sampling without replacement", 1974), as Bardenet and Maillard state it ("Concentration
        inequalities for sampling without replacement", 2015, corollary 2.5).
        """
        off = 0.0
        if self.variance > 0:
            off = t_quantile(confidence, self.freedom) * math.sqrt(self.variance)
        return off + math.sqrt(2 * math.log(2 / (1 - confidence)) * self.proxy)


def _spread(
    sample: Sample,
    deviations: Floats,
    weights: Floats,
    selected: Ints,
    partial: Bools,
    variances: Floats,
) -> _Spread | None:
    """Return the spread of the total; None: a stratum with one sampled point has unknown extremes.

    ``variances``: the estimated variance of the total of each stratum.
    """
    size, indices = len(selected), sample.indices
    lowest, highest = np.full(size, np.inf), np.full(size, -np.inf)
    np.minimum.at(lowest, indices, deviations)
    np.maximum.at(highest, indices, deviations)
    unknown = np.full(size, math.nan)
    lows = unknown if sample.lows is None else sample.lows
    highs = unknown if sample.highs is None else sample.highs
    is_known = ~np.isnan(lows) & ~np.isnan(highs)
    if np.any(partial & ~is_known & (selected == 1)):
        return None
    ranges = np.fmax(highest, highs) - np.fmin(lowest, lows)
    left = np.maximum(sample.counts - selected, 0)
    sums = np.bincount(indices, weights=deviations, minlength=size)
    squares = np.bincount(indices, weights=deviations**2, minlength=size)
    selected_or_1 = np.maximum(selected, 1)
    deviation = np.sqrt(np.maximum(squares / selected_or_1 - (sums / selected_or_1) ** 2, 0))
    is_smooth = (selected >= _MIN_SMOOTH) & (ranges <= _MAX_RANGE * deviation)
    bounded = partial & is_known & ~is_smooth
    estimated = partial & ~bounded
    # If all values are equal, a few points are enough.
    rests_on_few = (bounded & (ranges > 0)) | (estimated & (selected < _MIN_SMOOTH))
    freedom = 1
    variance = float(variances[estimated].sum())
    if variance > 0:
        spread = float((variances[estimated] ** 2 / (selected[estimated] - 1)).sum())
        freedom = max(1, int(variance**2 / spread))
    share = selected / np.maximum(sample.counts, 1)
    fewer = np.minimum(
        1 - (selected - 1) / np.maximum(sample.counts, 1), (1 - share) * (1 + 1 / selected_or_1)
    )
    # A sample with unequal weights is as good as a smaller sample with equal weights.
    effective = np.bincount(indices, weights=weights, minlength=size) ** 2 / np.maximum(
        np.bincount(indices, weights=weights**2, minlength=size), 1e-300
    )
    proxies = (sample.counts * ranges) ** 2 * fewer / (4 * np.maximum(effective, 1))
    certain = sample.predicted + float(sums.sum())
    is_certain = not np.any(partial & ~is_known)
    return _Spread(
        variance,
        freedom,
        float(proxies[bounded].sum()),
        certain + float((left * lows)[partial].sum()) if is_certain else -math.inf,
        certain + float((left * highs)[partial].sum()) if is_certain else math.inf,
        int(selected[rests_on_few].min()) if rests_on_few.any() else None,
    )


def _within(estimate: Estimate, spread: _Spread) -> Estimate:
    """Return an estimate within the certain bounds of the total."""
    if estimate.low is None or estimate.high is None:
        return estimate
    least, greatest = spread.least, spread.greatest
    return Estimate(
        min(max(estimate.value, least), greatest),
        min(max(estimate.low, least), greatest),
        max(min(estimate.high, greatest), least),
        estimate.confidence,
        estimate.few_points,
    )


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
    return Estimate(
        whole.value / seen, whole.low / seen, whole.high / seen, confidence, whole.few_points
    )
