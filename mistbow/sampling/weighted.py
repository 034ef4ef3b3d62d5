"""Sums and averages of sampled points, with bounds: stratified, weighted, over any hierarchy.

After ApproxIoT (Wen, Quoc, Bhatotia, Chen and Lee, "ApproxIoT: Approximate Analytics for Edge
Computing", ICDCS 2018, sections III and IV). There, a node that keeps N of the c points of a
stratum that it gets multiplies their weight by max(1, c / N). Here a sample carries how many points
each stratum had at its source, so the weight is that count over the points kept, which is the same
product, at any depth.

SUM and AVG have bounds; a sample's least or greatest value has none.
"""

import math
from dataclasses import dataclass

import msgspec
import numpy as np

from mistbow.sampling.lots import Floats, Ints
from mistbow.sampling.student import t_quantile

_MOST = 1e150
"""Of a greater variance, the square overflows."""


@dataclass(frozen=True, slots=True, eq=False)
class Sample:
    """What is kept of some points: their ``values``, and in which stratum each was (``places``).

    ``counts`` says how many points each stratum had, kept or not; ``chances``, with what chance
    each value was kept, of which only the ratios within a stratum matter. What each value was
    foretold to be is in ``levels``, and the sum of that over all points, kept or not, is
    ``foretold``: 0 where nothing was foretold.
    """

    counts: Ints
    places: Ints
    values: Floats
    chances: Floats
    levels: Floats
    foretold: float

    @property
    def seen(self) -> int:
        """How many points there were."""
        return int(self.counts.sum())


class Estimate(msgspec.Struct, frozen=True):
    """A value, and bounds that hold the true one with a confidence; none if nothing is known."""

    value: float
    low: float | None
    high: float | None
    confidence: float


def total(sample: Sample, confidence: float) -> Estimate:
    """Return the SUM of all points.

    Raises ``ValueError`` for a stratum with points of which none is kept. Bounds are those of
    stratified sampling, with the finite population correction (Cochran, "Sampling Techniques",
    1977, section 5.6) and Satterthwaite's degrees of freedom. Estimated is by how much the foretold
    is off (Särndal, Swensson and Wretman, "Model Assisted Survey Sampling", 1992, section 6.3).
    """
    size, counts, places = len(sample.counts), sample.counts, sample.places
    kept = np.bincount(places, minlength=size)
    if np.any((kept == 0) & (counts > 0)):
        raise ValueError("a stratum of which no point is kept has no estimate")
    partial = kept < counts
    weights = _weights(sample)
    with np.errstate(over="ignore", invalid="ignore"):
        away = sample.values - sample.levels
        sums = np.bincount(places, weights=weights * away, minlength=size)
        value = sample.foretold + float(sums.sum())
        apart = (away - (sums / np.maximum(counts, 1))[places]) ** 2
        apart *= weights * np.maximum(weights - 1, 0)
        each = np.bincount(places, weights=apart, minlength=size) * kept / np.maximum(kept - 1, 1)
    variances = each[partial]
    # Of one point that is kept of several nobody knows how the others vary.
    if np.any(partial & (kept == 1)) or not variances.sum() < _MOST:
        return Estimate(value, None, None, confidence)
    off, variance = 0.0, float(variances.sum())
    if variance > 0:
        spread = float((variances**2 / (kept[partial] - 1)).sum())
        off = t_quantile(confidence, max(1, int(variance**2 / spread))) * math.sqrt(variance)
    return Estimate(value, value - off, value + off, confidence)


def _weights(sample: Sample) -> Floats:
    """Return for how many points each kept one stands, which add up to the count of a stratum."""
    size, places = len(sample.counts), sample.places
    least = np.ones(size)
    np.minimum.at(least, places, sample.chances)
    # Those of equal chances are exactly 1 before they are scaled.
    weights = least[places] / sample.chances
    sums = np.bincount(places, weights=weights, minlength=size)
    scaled: Floats = weights * (sample.counts[places] / sums[places])
    return scaled


def mean(sample: Sample, confidence: float) -> Estimate:
    """Return the AVG of all points, of which there is one at least; do as ``total``."""
    whole, seen = total(sample, confidence), sample.seen
    if whole.low is None or whole.high is None:
        return Estimate(whole.value / seen, None, None, confidence)
    return Estimate(whole.value / seen, whole.low / seen, whole.high / seen, confidence)
