"""Operators that sort the values of a window, or that pair the points of two windows."""

import numpy as np
from numpy.typing import NDArray

from analytics_worker.operators.points import Floats, Points

CONSTANT = 1e-14
"""Values whose range is at most this share of the greatest absolute value are constant.

Values that differ by the rounding of earlier calculations only have no correlation.
"""


def median(values: Floats) -> float | None:
    """Return the median: the middle value, or the mean of both middle values; None: no values."""
    return percentile(values, 50)


def percentile(values: Floats, p: float) -> float | None:
    """Return the ``p``-th percentile; None without values.

    ``p`` is from 0 to 100. Between two values, the result is interpolated linearly, like SQL's
    ``quantile_cont``.

    >>> percentile(np.array([1.0, 2.0, 4.0]), 75)
    3.0
    """
    return float(np.percentile(values, p)) if len(values) else None


def mode(values: Floats) -> float | None:
    """Return the most frequent value; None without values.

    Of several equally frequent values, the least is returned.
    """
    if not len(values):
        return None
    distinct, counts = np.unique(values, return_counts=True)
    return float(distinct[counts.argmax()])


def top_k(values: Floats, k: int) -> Floats:
    """Return the ``k`` greatest values, or all if there are fewer than ``k``, in descending order.

    A value that occurs twice may be returned twice.

    >>> top_k(np.array([1.0, 7.0, 3.0, 7.0]), 3)
    array([7., 7., 3.])
    """
    kept = np.partition(values, len(values) - k)[-k:] if k < len(values) else values
    return np.sort(kept)[::-1]


def histogram(values: Floats, n: int) -> tuple[NDArray[np.int64], Floats]:
    """Return the number of values in each of ``n`` bins, and the ``n`` + 1 edges of the bins.

    The bins are equally wide and extend from the minimum to the maximum. Each bin includes its
    left edge; the last bin also includes its right edge. If all values are equal, the last bin
    contains all of them. ``values`` must not be empty.
    """
    least, greatest = values.min(), values.max()
    # Quartered: the distance of two finite values may overflow, and so may that of their halves
    # when numpy multiplies a rounded step.
    edges = np.clip(4 * np.linspace(least / 4, greatest / 4, n + 1), least, greatest)
    edges[0], edges[-1] = least, greatest
    # The edges of numpy would be refused where they are too close together.
    counts, _ = np.histogram(values, edges)
    return counts.astype(np.int64), edges


def correlation(x: Points, y: Points) -> float | None:
    """Return Pearson's correlation of the values of ``x`` and ``y`` with equal times and entities.

    If several points have the same time and entity, all pairs of these points are used, as in an
    inner join. Return None if there are fewer than two pairs, or if the values of ``x`` or of ``y``
    are constant (``CONSTANT``).
    """
    x_slots, y_slots = _slots(x, y)
    number = int(max(x_slots.max(initial=-1), y_slots.max(initial=-1))) + 1
    in_x, in_y = np.bincount(x_slots, minlength=number), np.bincount(y_slots, minlength=number)
    pairs = int(in_x @ in_y)
    if pairs < 2:
        return None
    # Sums over each slot give the sums over its pairs.
    x_away = _distances(x.values, in_y[x_slots], pairs)
    y_away = _distances(y.values, in_x[y_slots], pairs)
    if x_away is None or y_away is None:
        return None
    together = np.bincount(x_slots, x_away, number) @ np.bincount(y_slots, y_away, number)
    x_square = in_y[x_slots] @ (x_away * x_away)
    y_square = in_x[y_slots] @ (y_away * y_away)
    return float(np.clip(together / np.sqrt(x_square) / np.sqrt(y_square), -1, 1))


def _slots(x: Points, y: Points) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return a number for each point of ``x`` and for each point of ``y``, as two arrays.

    Points with equal times and entities have the same number.
    """
    _, times = np.unique(np.concatenate([x.ts, y.ts]), return_inverse=True)
    names, entities = np.unique(np.concatenate([x.entities, y.entities]), return_inverse=True)
    _, slots = np.unique(times * len(names) + entities, return_inverse=True)
    return slots[: len(x.ts)], slots[len(x.ts) :]


def _distances(values: Floats, weights: NDArray[np.intp], pairs: int) -> Floats | None:
    """Return the deviations from the weighted mean; None if all values with a positive weight are
    constant (``CONSTANT``).

    ``pairs``: the sum of the weights. The deviations are scaled to a range of 1, so no square
    overflows; the scale does not change the correlation.
    """
    paired = weights > 0
    # Halved, as the distance of two finite values may overflow.
    away = np.where(paired, values / 2 - values[paired].min() / 2, 0.0)
    extent = away.max()
    if extent <= CONSTANT * np.abs(values[paired] / 2).max():
        return None
    away /= extent
    return np.where(paired, away - weights @ away / pairs, 0.0)
