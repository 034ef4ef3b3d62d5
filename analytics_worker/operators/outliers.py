"""Distance-based outliers of a window."""

import numpy as np
from numpy.typing import NDArray

from analytics_worker.operators.points import Floats


def pmcod(values: Floats, k: int, r: float) -> NDArray[np.bool_]:
    """Return, for each value, whether fewer than ``k`` other values lie within the distance ``r``.

    The function `pmcod` of the language of insights. Outliers are defined as by Kontaki et al.,
    "Continuous monitoring of distance-based outliers over data streams" (ICDE 2011), and in the
    parallel algorithm of PROUD (Toliopoulos et al., SIGMOD 2020). Micro-clusters, which speed up
    the search for neighbours in many dimensions, are not needed: in one dimension, neighbours are
    adjacent in sorted order. The search takes O(n log n), has no state, and is exact, since
    distances are compared as differences of floats, as in a search of all pairs.

    >>> pmcod(np.array([1.0, 9.0, 1.5]), k=1, r=0.5)
    array([False,  True, False])
    """
    order = np.argsort(values)
    ranked = values[order]
    # The neighbours above a value are the neighbours below it in the reverse order.
    neighbours = _below(ranked, r) + _below(-ranked[::-1], r)[::-1]
    outlying = np.empty(len(values), dtype=np.bool_)
    outlying[order] = neighbours < k
    return outlying


def _below(ranked: Floats, r: float) -> NDArray[np.intp]:
    """Return, for each value, the number of preceding values that are at most ``r`` smaller.

    ``ranked``: the values in ascending order.
    """
    first = np.searchsorted(ranked, ranked - r)
    before = np.maximum(first - 1, 0)
    with np.errstate(over="ignore"):
        # A bound and a distance may be rounded to different sides of a value.
        wrong = (ranked - ranked[first] > r) | (ranked - ranked[before] <= r) & (first > 0)
        unsure = np.flatnonzero(wrong)
        first[unsure] = _bisect(ranked, unsure, r)
    return np.arange(len(ranked)) - first


def _bisect(ranked: Floats, indices: NDArray[np.intp], r: float) -> NDArray[np.intp]:
    """Return, for each value at ``indices``, the index of the first value that is at most ``r``
    smaller.

    ``ranked``: the values in ascending order.
    """
    values, low, high = ranked[indices], np.zeros_like(indices), indices
    while (low < high).any():
        middle = (low + high) // 2
        near = values - ranked[middle] <= r
        low, high = np.where(near, low, middle + 1), np.where(near, middle, high)
    return low
