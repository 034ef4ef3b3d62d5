"""With what chance to keep the points of each stratum, from what points of before were like.

Points are thinned at the source by their lots alone (Poisson sampling), so a chance must be known
before the points are. It follows from all points of an earlier period, kept or not: nothing is
remembered, and a replay finds the same again.
"""

import math
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from mistbow.sampling.lots import Floats, Ints

LEAST = 10
"""So many points of a stratum should be kept, so that they say how it varies."""

_STRATA = (1, 2, 4, 8, 16, 32)
_MARGIN = 1.25
"""By how much to shoot beyond a bound: variances of before are not those of now."""
_HALVINGS = 30


@dataclass(frozen=True, slots=True, eq=False)
class Units:
    """What can be told apart, sorted by ``means``: how many points each has, and their variance."""

    counts: Ints
    means: Floats
    variances: Floats

    @classmethod
    def of(cls, places: Ints, values: Floats, number: int) -> "Units":
        """Return ``number`` units, each with one point or more, not sorted yet."""
        counts = np.bincount(places, minlength=number)
        with np.errstate(over="ignore", invalid="ignore"):
            means = np.bincount(places, weights=values, minlength=number) / counts
            away = np.bincount(places, weights=(values - means[places]) ** 2, minlength=number)
        return cls(counts, means, away / counts)

    def take(self, chosen: Ints) -> "Units":
        """Return some of them, in this order."""
        return Units(self.counts[chosen], self.means[chosen], self.variances[chosen])

    def joined(self, places: Ints, number: int) -> "Units":
        """Return the strata that units make up together."""
        counts = np.bincount(places, weights=self.counts, minlength=number)
        with np.errstate(over="ignore", invalid="ignore"):
            means = np.bincount(places, weights=self.counts * self.means, minlength=number) / counts
            away = self.variances + (self.means - means[places]) ** 2
            variances = np.bincount(places, weights=self.counts * away, minlength=number) / counts
        return Units(counts.astype(np.int64), means, variances)


@dataclass(frozen=True, slots=True, eq=False)
class Allotment:
    """The stratum of each unit, by its place; of each stratum, its points' chance and mean."""

    strata: Ints
    chances: Floats
    levels: Floats


def for_error(units: Units, max_error: float, confidence: float, periods: float) -> Allotment:
    """Return the chances that keep as few points as bound the relative error of their sum.

    Over ``periods`` such periods, errors even out. Of the numbers of strata that are tried, the
    one that needs the fewest points is taken; the rest is Neyman's allocation (Cochran, "Sampling
    Techniques", 1977, section 5.9).
    """
    quantile = NormalDist().inv_cdf((1 + confidence) / 2) * _MARGIN
    off = max_error * abs(float((units.counts * units.means).sum())) / quantile
    allowed = periods * (off * off)

    tried: list[tuple[float, Allotment]] = []
    for places, strata in _stratified(units):
        chances = _least(strata, allowed)
        kept = float((strata.counts * chances).sum())
        tried.append((kept, Allotment(places, chances, strata.means)))
    return min(tried, key=lambda each: each[0])[1] if tried else _same_for_all(units, 1.0)


def for_share(units: Units, share: float) -> Allotment:
    """Return the chances that keep a share of the points so that the error is least."""
    number = share * float(units.counts.sum())
    tried: list[tuple[float, Allotment]] = []
    for places, strata in _stratified(units):
        if float((strata.counts * _floor(strata)).sum()) <= number:
            chances = _most(strata, number)
            tried.append((_uncertainty(strata, chances), Allotment(places, chances, strata.means)))
    return min(tried, key=lambda each: each[0])[1] if tried else _same_for_all(units, share)


def _same_for_all(units: Units, chance: float) -> Allotment:
    places = np.zeros(len(units.counts), np.int64)
    return Allotment(places, np.array([chance]), units.joined(places, 1).means)


def _stratified(units: Units) -> list[tuple[Ints, Units]]:
    """Return strata of units of a similar level, about as many points in each.

    None are there if values are so large that their variance is not a number.
    """
    ends = np.cumsum(units.counts)
    found = []
    for number in _STRATA:
        middle = ends - units.counts / 2
        places = np.minimum((middle * number / ends[-1]).astype(np.int64), number - 1)
        _, places = np.unique(places, return_inverse=True)
        strata = units.joined(places, int(places[-1]) + 1)
        if np.isfinite(strata.variances).all():
            found.append((places, strata))
        if number >= len(units.counts):
            break
    return found


def _floor(strata: Units) -> Floats:
    return np.minimum(1.0, LEAST / strata.counts)


def _chances(strata: Units, scale: float) -> Floats:
    return np.clip(scale * np.sqrt(strata.variances), _floor(strata), 1.0)


def _bounds(strata: Units) -> tuple[float, float]:
    """Return scales at which nothing and everything is kept, if it varies at all."""
    deviations = np.sqrt(strata.variances[strata.variances > 0])
    if not deviations.size:
        return 1.0, 1.0
    return 1e-9 / float(deviations.max()), 1 / float(deviations.min())


def _uncertainty(strata: Units, chances: Floats) -> float:
    """Return the variance of the sum that follows from such a sample."""
    return float((strata.counts * strata.variances * (1 / chances - 1)).sum())


def _least(strata: Units, allowed: float) -> Floats:
    """Return the least chances in proportion to the deviations with no more uncertainty."""
    low, high = _bounds(strata)
    for _ in range(_HALVINGS):
        middle = math.sqrt(low * high)
        enough = _uncertainty(strata, _chances(strata, middle)) <= allowed
        low, high = (low, middle) if enough else (middle, high)
    return _chances(strata, high)


def _most(strata: Units, number: float) -> Floats:
    """Return the greatest such chances that keep no more than so many points."""
    low, high = _bounds(strata)
    for _ in range(_HALVINGS):
        middle = math.sqrt(low * high)
        fits = float((strata.counts * _chances(strata, middle)).sum()) <= number
        low, high = (middle, high) if fits else (low, middle)
    return _chances(strata, low)
