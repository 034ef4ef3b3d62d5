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

    ``counts`` says how many points each stratum had, kept or not.
    """

    counts: Ints
    places: Ints
    values: Floats

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
    1977, section 5.6) and Satterthwaite's degrees of freedom.
    """
    size, counts = len(sample.counts), sample.counts
    kept = np.bincount(sample.places, minlength=size)
    if np.any((kept == 0) & (counts > 0)):
        raise ValueError("a stratum of which no point is kept has no estimate")
    means = np.bincount(sample.places, weights=sample.values, minlength=size) / np.maximum(kept, 1)
    value = float((counts * means).sum())
    left_out = 1 - kept / np.maximum(counts, 1)
    partial = left_out > 0
    with np.errstate(over="ignore", invalid="ignore"):
        apart = (sample.values - means[sample.places]) ** 2
        squares = np.bincount(sample.places, weights=apart, minlength=size)
        each = (counts**2 * left_out / np.maximum(kept, 1)) * squares / np.maximum(kept - 1, 1)
    variances = each[partial]
    # Of one point that is kept of several nobody knows how the others vary.
    if np.any(partial & (kept == 1)) or not variances.sum() < _MOST:
        return Estimate(value, None, None, confidence)
    off, variance = 0.0, float(variances.sum())
    if variance > 0:
        spread = float((variances**2 / (kept[partial] - 1)).sum())
        off = t_quantile(confidence, max(1, int(variance**2 / spread))) * math.sqrt(variance)
    return Estimate(value, value - off, value + off, confidence)


def mean(sample: Sample, confidence: float) -> Estimate:
    """Return the AVG of all points, of which there is one at least; do as ``total``."""
    whole, seen = total(sample, confidence), sample.seen
    if whole.low is None or whole.high is None:
        return Estimate(whole.value / seen, None, None, confidence)
    return Estimate(whole.value / seen, whole.low / seen, whole.high / seen, confidence)
