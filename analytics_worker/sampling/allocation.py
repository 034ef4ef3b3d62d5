"""Allocation: the sampling probability (chance) of each stratum, computed from an earlier period.

Points are sampled at the source by their sampling keys alone (Poisson sampling), so chances must
exist before the points. Chances are computed from all points of an earlier period, sampled or not,
so no state is needed, and a replay computes the same chances.
"""

import math
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from analytics_worker.sampling.sampling_keys import Floats, Ints

MIN_STRATUM_POINTS = 10
"""The least expected number of sampled points of a stratum, to estimate the variance."""

_STRATA = (1, 2, 4, 8, 16, 32)
_MARGIN = 1.25
"""The factor by which error bounds are tightened, since variances change between periods."""
_BISECTIONS = 30


@dataclass(frozen=True, slots=True, eq=False)
class SamplingUnits:
    """The number, mean and variance of the points of each sampling unit (a key and an entity).

    Allocations need units in ascending order of ``means``.
    """

    counts: Ints
    means: Floats
    variances: Floats

    @classmethod
    def of(cls, indices: Ints, values: Floats, number: int) -> "SamplingUnits":
        """Return ``number`` units; ``indices``: the unit of each value, from 0 to ``number`` - 1.

        Each unit must have a value. The units are in the order of their indices, not sorted by
        mean.
        """
        counts = np.bincount(indices, minlength=number)
        with np.errstate(over="ignore", invalid="ignore"):
            means = np.bincount(indices, weights=values, minlength=number) / counts
            away = np.bincount(indices, weights=(values - means[indices]) ** 2, minlength=number)
        return cls(counts, means, away / counts)

    def take(self, chosen: Ints) -> "SamplingUnits":
        """Return the units with the indices ``chosen``, in this order."""
        return SamplingUnits(self.counts[chosen], self.means[chosen], self.variances[chosen])

    def merge(self, indices: Ints, number: int) -> "SamplingUnits":
        """Return units merged to ``number`` strata, as units; ``indices``: the stratum of each
        unit.
        """
        counts = np.bincount(indices, weights=self.counts, minlength=number)
        with np.errstate(over="ignore", invalid="ignore"):
            means = (
                np.bincount(indices, weights=self.counts * self.means, minlength=number) / counts
            )
            away = self.variances + (self.means - means[indices]) ** 2
            variances = np.bincount(indices, weights=self.counts * away, minlength=number) / counts
        return SamplingUnits(counts.astype(np.int64), means, variances)


@dataclass(frozen=True, slots=True, eq=False)
class Allocation:
    """The stratum of each unit, and the chance and the level (mean value) of each stratum."""

    strata: Ints
    chances: Floats
    levels: Floats


def allocate_for_error(
    units: SamplingUnits, max_error: float, confidence: float, periods: float
) -> Allocation:
    """Return the allocation that bounds the relative error of the sum with the fewest points.

    ``max_error``: the bound, for a window of ``periods`` periods, whose errors partly cancel out.
    Several numbers of strata are tried, each with Neyman allocation; the allocation with the fewest
    points is returned (Cochran, "Sampling Techniques", 1977, section 5.9).
    """
    quantile = NormalDist().inv_cdf((1 + confidence) / 2) * _MARGIN
    off = max_error * abs(float((units.counts * units.means).sum())) / quantile
    allowed = periods * (off * off)

    tried: list[tuple[float, Allocation]] = []
    for indices, strata in _stratified(units):
        chances = _min_chances(strata, allowed)
        expected = float((strata.counts * chances).sum())
        tried.append((expected, Allocation(indices, chances, strata.means)))
    return min(tried, key=lambda each: each[0])[1] if tried else _uniform(units, 1.0)


def allocate_for_share(units: SamplingUnits, share: float) -> Allocation:
    """Return the allocation that selects a ``share`` of the points with the least error."""
    number = share * float(units.counts.sum())
    tried: list[tuple[float, Allocation]] = []
    for indices, strata in _stratified(units):
        if float((strata.counts * _floor(strata)).sum()) <= number:
            chances = _max_chances(strata, number)
            tried.append(
                (_uncertainty(strata, chances), Allocation(indices, chances, strata.means))
            )
    return min(tried, key=lambda each: each[0])[1] if tried else _uniform(units, share)


def allocate_between(strata: SamplingUnits, share: float) -> Floats | None:
    """Return the chances of the strata of several keys that select a ``share`` of all their points.

    Keys whose values vary more have greater chances, so the sum of the variances of all keys is the
    least. None: the share is too small for ``MIN_STRATUM_POINTS`` in each stratum.
    """
    number = share * float(strata.counts.sum())
    if not np.isfinite(strata.variances).all():
        return None
    if float((strata.counts * _floor(strata)).sum()) > number:
        return None
    return _max_chances(strata, number)


def _uniform(units: SamplingUnits, chance: float) -> Allocation:
    indices = np.zeros(len(units.counts), np.int64)
    return Allocation(indices, np.array([chance]), units.merge(indices, 1).means)


def _stratified(units: SamplingUnits) -> list[tuple[Ints, SamplingUnits]]:
    """Return divisions of the units into 1 to 32 strata, as pairs (stratum of each unit, strata).

    The strata of a division have about equally many points, and points of similar level. The list
    is empty if values are so large that their variance overflows.
    """
    ends = np.cumsum(units.counts)
    found = []
    for number in _STRATA:
        middle = ends - units.counts / 2
        indices = np.minimum((middle * number / ends[-1]).astype(np.int64), number - 1)
        _, indices = np.unique(indices, return_inverse=True)
        strata = units.merge(indices, int(indices[-1]) + 1)
        if np.isfinite(strata.variances).all():
            found.append((indices, strata))
        if number >= len(units.counts):
            break
    return found


def _floor(strata: SamplingUnits) -> Floats:
    return np.minimum(1.0, MIN_STRATUM_POINTS / strata.counts)


def _chances(strata: SamplingUnits, scale: float) -> Floats:
    """Return the standard deviations times ``scale``, limited to chances from ``_floor`` to 1."""
    return np.clip(scale * np.sqrt(strata.variances), _floor(strata), 1.0)


def _bounds(strata: SamplingUnits) -> tuple[float, float]:
    """Return the least and the greatest useful factor from standard deviations to chances."""
    deviations = np.sqrt(strata.variances[strata.variances > 0])
    if not deviations.size:
        return 1.0, 1.0
    return 1e-9 / float(deviations.max()), 1 / float(deviations.min())


def _uncertainty(strata: SamplingUnits, chances: Floats) -> float:
    """Return the variance of the sum that is estimated from a sample with these chances."""
    return float((strata.counts * strata.variances * (1 / chances - 1)).sum())


def _min_chances(strata: SamplingUnits, allowed: float) -> Floats:
    """Return the least chances for which the variance of the estimated sum is at most ``allowed``.

    Each chance is proportional to the standard deviation of its stratum, within the limits of
    ``_chances``.
    """
    low, high = _bounds(strata)
    for _ in range(_BISECTIONS):
        middle = math.sqrt(low * high)
        enough = _uncertainty(strata, _chances(strata, middle)) <= allowed
        low, high = (low, middle) if enough else (middle, high)
    return _chances(strata, high)


def _max_chances(strata: SamplingUnits, number: float) -> Floats:
    """Return the greatest chances that select at most ``number`` points on average.

    Each chance is proportional to the standard deviation of its stratum, within the limits of
    ``_chances``.
    """
    low, high = _bounds(strata)
    for _ in range(_BISECTIONS):
        middle = math.sqrt(low * high)
        fits = float((strata.counts * _chances(strata, middle)).sum()) <= number
        low, high = (middle, high) if fits else (low, middle)
    return _chances(strata, low)
