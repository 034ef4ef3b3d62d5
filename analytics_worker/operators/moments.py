"""Moments: the mergeable states of variance, standard deviation and geometric mean."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from analytics_worker.operators.points import Floats


@dataclass(frozen=True, slots=True, eq=False)
class Moments:
    """The moments of several sets of values, as arrays.

    For each set: ``count`` is the number of values, ``mean`` the mean of the values, and ``m2`` the
    sum of the squared distances from the mean. ``log_mean`` is the mean of the logarithms of the
    values, or NaN if a value is 0 or less.
    """

    count: NDArray[np.int64]
    mean: Floats
    m2: Floats
    log_mean: Floats


def moments_of(values: Floats) -> Moments:
    """Return the moments of one non-empty set of values, as arrays of length 1.

    >>> variance(moments_of(np.array([1.0, 3.0])))
    array([1.])
    """
    mean = values.mean()
    away = values - mean
    # Corrects the rounding of the mean (Chan, Golub, LeVeque 1983, equation 1.7).
    m2 = away @ away - away.sum() ** 2 / len(values)
    log_mean = np.log(values).mean() if values.min() > 0 else np.nan
    return Moments(
        np.array([len(values)]), np.array([mean]), np.array([max(m2, 0.0)]), np.array([log_mean])
    )


def merge(parts: Moments, groups: NDArray[np.int64], number: int) -> Moments:
    """Return the merged moments of each group of ``parts``.

    ``groups``: the group of each part, from 0 to ``number`` - 1. No group and no part is empty.
    Source: Chan, Golub, LeVeque, "Algorithms for computing the sample variance" (The American
    Statistician 37, 1983), equation 2.1, for many parts at once.
    """

    def total(weights: Floats) -> Floats:
        return np.bincount(groups, weights, number).astype(np.float64)

    # Sums of deviations from one of the means lose less to rounding than sums of means.
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
    """Return the population variance of each set (SQL: ``var_pop``); 0 for a single value."""
    return moments.m2 / moments.count


def sdev(moments: Moments) -> Floats:
    """Return the population standard deviation of each set (SQL: ``stddev_pop``)."""
    return np.sqrt(variance(moments))


def geometric_mean(moments: Moments) -> Floats:
    """Return the geometric mean of each set; NaN if the set contains a value of 0 or less."""
    return np.exp(moments.log_mean)
