"""Distance-based outliers of a window."""

import numpy as np
from numpy.typing import NDArray

from mistbow.operators.points import Floats


def pmcod(values: Floats, k: int, r: float) -> NDArray[np.bool_]:
    """Return for each value whether fewer than ``k`` others lie within the distance ``r`` of it.

    The language names this `pmcod`, for the outliers are those of Kontaki et al., "Continuous
    monitoring of distance-based outliers over data streams" (ICDE 2011), and of its parallel form
    in PROUD (Toliopoulos et al., SIGMOD 2020). Micro-clusters, which save those looking for
    neighbours in many dimensions, are not needed here: in one dimension the neighbours of a value
    lie side by side once sorted. So this takes O(n log n) and no state, and is exact: distances
    are compared as floats are subtracted, like a search of all pairs does.

    >>> pmcod(np.array([1.0, 9.0, 1.5]), k=1, r=0.5)
    array([False,  True, False])
    """
    order = np.argsort(values)
    ranked = values[order]
    # The neighbours above are those below, seen from the other end.
    neighbours = _below(ranked, r) + _below(-ranked[::-1], r)[::-1]
    outlying = np.empty(len(values), dtype=np.bool_)
    outlying[order] = neighbours < k
    return outlying


def _below(ranked: Floats, r: float) -> NDArray[np.intp]:
    """Return how many places before each have a value within ``r``."""
    first = np.searchsorted(ranked, ranked - r)
    before = np.maximum(first - 1, 0)
    with np.errstate(over="ignore"):
        # A bound may be rounded to the other side of a value than the distance to that value is.
        wrong = (ranked - ranked[first] > r) | (ranked - ranked[before] <= r) & (first > 0)
        unsure = np.flatnonzero(wrong)
        first[unsure] = _bisect(ranked, unsure, r)
    return np.arange(len(ranked)) - first


def _bisect(ranked: Floats, places: NDArray[np.intp], r: float) -> NDArray[np.intp]:
    """Return the first place whose value is within ``r`` below that of each of ``places``."""
    values, low, high = ranked[places], np.zeros_like(places), places
    while (low < high).any():
        middle = (low + high) // 2
        near = values - ranked[middle] <= r
        low, high = np.where(near, low, middle + 1), np.where(near, middle, high)
    return low
