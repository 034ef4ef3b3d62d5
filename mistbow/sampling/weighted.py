"""Sums and averages of sampled points, with bounds: stratified, weighted, over any hierarchy.

After ApproxIoT (Wen, Quoc, Bhatotia, Chen and Lee, "ApproxIoT: Approximate Analytics for Edge
Computing", ICDCS 2018, sections III and IV). There, a node that keeps N of the c points of a
stratum that it gets multiplies their weight by max(1, c / N). Here a sample carries how many points
each stratum had at its source, so the weight is that count over the points kept, which is the same
product, at any depth: an inner node merges, cuts and hands on.

What panes and sites come to (``Moments``) adds up: windows over panes, and answers over sites, need
no points. SUM, AVG and COUNT have bounds; a sample's least or greatest value has none.
"""

import math

import msgspec
import numpy as np

from mistbow.sampling.reservoir import POOL, Bools, Floats, Ints, Sample
from mistbow.sampling.student import t_quantile

_MOST = 1e150
"""Of a greater variance, the square overflows."""


class Loose(msgspec.Struct, frozen=True):
    """Points kept at one rate from strata that are too small alone: their number, kept, moments."""

    count: int = 0
    kept: int = 0
    mean: float = 0.0
    squares: float = 0.0
    """The sum of the squared deviations from the mean."""

    def __add__(self, other: "Loose") -> "Loose":
        """Join two (Chan, Golub and LeVeque, "Updating formulae", 1979, equation 1.5)."""
        count, kept = self.count + other.count, self.kept + other.kept
        if not kept:
            return Loose(count)
        apart = other.mean - self.mean
        return Loose(
            count,
            kept,
            self.mean + apart * other.kept / kept,
            self.squares + other.squares + apart * apart * self.kept * other.kept / kept,
        )


class Moments(msgspec.Struct, frozen=True, kw_only=True):
    """What samples of different strata, panes or sites come to together."""

    count: int = 0
    kept: int = 0
    total: float = 0.0
    variance: float = 0.0
    """Of the total, as an estimate."""
    spread: float = 0.0
    """The sum over the strata of variance² / degrees of freedom (Satterthwaite)."""
    blind: bool = False
    """Whether a stratum's variance is unknown: one point is kept of several, or it overflows."""
    loose: Loose = Loose()

    def __add__(self, other: "Moments") -> "Moments":
        """Join what two came to that have no stratum of the same pane in common."""
        return Moments(
            count=self.count + other.count,
            kept=self.kept + other.kept,
            total=self.total + other.total,
            variance=self.variance + other.variance,
            spread=self.spread + other.spread,
            blind=self.blind or other.blind,
            loose=self.loose + other.loose,
        )


class Estimate(msgspec.Struct, frozen=True):
    """A value, and bounds that hold the true one with a confidence; none if nothing is known."""

    value: float
    low: float | None
    high: float | None
    confidence: float


def moments(sample: Sample) -> Moments:
    """Return what a sample comes to.

    Raises ``ValueError`` for a stratum with points of which none is kept, but for an even pool.
    """
    strata = spreads(sample)
    loose = np.array([sample.even and name == POOL for name in sample.strata], np.bool_)
    if np.any(~loose & (strata.kept == 0) & (sample.counts > 0)):
        raise ValueError("a stratum of which no point is kept has no estimate")
    # With the finite population correction: Cochran, "Sampling Techniques", 1977, section 5.6.
    left_out = 1 - strata.kept / np.maximum(sample.counts, 1)
    partial = ~loose & (left_out > 0)
    variances = np.zeros(len(sample.strata))
    np.divide(sample.counts**2 * left_out, np.maximum(strata.kept, 1), out=variances, where=partial)
    variances[partial] *= strata.variances[partial]
    unknown = ~(variances < _MOST) | (partial & (strata.kept == 1))
    variances[unknown] = 0
    return Moments(
        count=sample.seen,
        kept=len(sample.values),
        total=float((sample.counts * strata.means)[~loose].sum()),
        variance=float(variances.sum()),
        spread=float((variances**2 / np.maximum(strata.kept - 1, 1)).sum()),
        blind=bool(unknown.any()),
        loose=_loose(sample.counts, strata, loose),
    )


class Spreads(msgspec.Struct, frozen=True, eq=False):
    """The kept points of each stratum: their number, mean, and variance (0 for fewer than two)."""

    kept: Ints
    means: Floats
    variances: Floats


def spreads(sample: Sample) -> Spreads:
    """Return how the kept points of each stratum spread."""
    kept, size = sample.kept, len(sample.strata)
    sums = np.bincount(sample.places, weights=sample.values, minlength=size)
    means = sums / np.maximum(kept, 1)
    with np.errstate(over="ignore"):
        apart = (sample.values - means[sample.places]) ** 2
    squares = np.bincount(sample.places, weights=apart, minlength=size)
    return Spreads(kept, means, squares / np.maximum(kept - 1, 1))


def _loose(counts: Ints, strata: Spreads, loose: Bools) -> Loose:
    for place in np.flatnonzero(loose):  # one at most: the pool
        kept = int(strata.kept[place])
        squares = float(strata.variances[place]) * max(kept - 1, 0)
        return Loose(int(counts[place]), kept, float(strata.means[place]), squares)
    return Loose()


def total(found: Moments, confidence: float) -> Estimate | None:
    """Return the SUM of all points; nothing if no point is kept that could say."""
    value, variance, spread, blind = found.total, found.variance, found.spread, found.blind
    loose = found.loose
    if loose.count:
        if not loose.kept:
            return None
        value += loose.count * loose.mean
        if loose.kept < loose.count:
            freedom = loose.kept - 1
            blind = blind or not freedom
            each = loose.squares / max(freedom, 1)
            more = loose.count**2 * (1 - loose.kept / loose.count) * each / loose.kept
            variance += more
            spread += more * more / max(freedom, 1)
    if blind or not variance < _MOST:
        return Estimate(value, None, None, confidence)
    off = 0.0
    if variance > 0:
        off = t_quantile(confidence, max(1, int(variance**2 / spread))) * math.sqrt(variance)
    return Estimate(value, value - off, value + off, confidence)


def mean(found: Moments, confidence: float) -> Estimate | None:
    """Return the AVG of all points; nothing if no point is kept that could say."""
    whole = total(found, confidence) if found.count else None
    if whole is None:
        return None
    value = whole.value / found.count
    if whole.low is None or whole.high is None:
        return Estimate(value, None, None, confidence)
    return Estimate(value, whole.low / found.count, whole.high / found.count, confidence)


def count(found: Moments, confidence: float) -> Estimate:
    """Return the COUNT of all points, which is known whatever is kept."""
    return Estimate(found.count, found.count, found.count, confidence)
