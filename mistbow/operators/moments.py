"""Moments: what variance and geometric mean need, of parts that can be merged."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mistbow.operators.points import Floats


@dataclass(frozen=True, slots=True, eq=False)
class Moments:
    """The moments of some sets of values, one set a place.

    ``count`` values have the mean ``mean`` and the sum ``m2`` of squared distances from it;
    ``log_mean`` is the mean of their logarithms, NaN where one of them is 0 or less.
    """

    count: NDArray[np.int64]
    mean: Floats
    m2: Floats
    log_mean: Floats


def moments_of(values: Floats) -> Moments:
    """Return the moments of one set, which must not be empty.

    >>> variance(moments_of(np.array([1.0, 3.0])))
    array([1.])
    """
    mean = values.mean()
    away = values - mean
    # What rounding took from the mean is given back (Chan, Golub, LeVeque 1983, equation 1.7).
    m2 = away @ away - away.sum() ** 2 / len(values)
    log_mean = np.log(values).mean() if values.min() > 0 else np.nan
    return Moments(
        np.array([len(values)]), np.array([mean]), np.array([max(m2, 0.0)]), np.array([log_mean])
    )


def merge(parts: Moments, groups: NDArray[np.int64], number: int) -> Moments:
    """Return the moments of the union of each group's parts.

    ``groups`` says for each part which group it is in, from 0 to ``number`` - 1; each has a part,
    and each part a value. The source is Chan, Golub, LeVeque, "Algorithms for computing the sample
    variance" (The American Statistician 37, 1983), equation 2.1, for many parts at once.
    """

    def total(weights: Floats) -> Floats:
        return np.bincount(groups, weights, number).astype(np.float64)

    # Sums of distances from one of the means lose less to rounding than sums of means.
    origin = np.empty(number)
    origin[groups] = parts.mean
    count = total(parts.count.astype(np.float64))
    mean = origin + total(parts.count * (parts.mean - origin[groups])) / count
    away = parts.mean - mean[groups]
    return Moments(
        count.astype(np.int64),
        mean,
        total(parts.m2) + total(parts.count * away * away),
        total(parts.count * parts.log_mean) / count,
    )


def variance(moments: Moments) -> Floats:
    """Return the variance of the population, which SQL names ``var_pop``: one value has 0."""
    return moments.m2 / moments.count


def sdev(moments: Moments) -> Floats:
    """Return the standard deviation of the population, which SQL names ``stddev_pop``."""
    return np.sqrt(variance(moments))


def geometric_mean(moments: Moments) -> Floats:
    """Return the geometric mean; NaN where a value is 0 or less."""
    return np.exp(moments.log_mean)
