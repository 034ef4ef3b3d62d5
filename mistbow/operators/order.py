"""Operators over the order of a window's values, and over pairs of points."""

import numpy as np
from numpy.typing import NDArray

from mistbow.operators.points import Floats, Points


def median(values: Floats) -> float | None:
    """Return the middle value, or the mean of the two in the middle; None of nothing."""
    return percentile(values, 50)


def percentile(values: Floats, p: float) -> float | None:
    """Return the value below which ``p`` percent lie; None of nothing.

    ``p`` is from 0 to 100; between two values the result is interpolated linearly, as SQL's
    ``quantile_cont`` does it.

    >>> percentile(np.array([1.0, 2.0, 4.0]), 75)
    3.0
    """
    return float(np.percentile(values, p)) if len(values) else None


def mode(values: Floats) -> float | None:
    """Return the most frequent value, the least of several; None of nothing."""
    if not len(values):
        return None
    distinct, counts = np.unique(values, return_counts=True)
    return float(distinct[counts.argmax()])


def top_k(values: Floats, k: int) -> Floats:
    """Return the ``k`` greatest values, or all if there are fewer, the greatest first.

    A value that occurs twice counts twice.

    >>> top_k(np.array([1.0, 7.0, 3.0, 7.0]), 3)
    array([7., 7., 3.])
    """
    kept = np.partition(values, len(values) - k)[-k:] if k < len(values) else values
    return np.sort(kept)[::-1]


def histogram(values: Floats, n: int) -> tuple[NDArray[np.int64], Floats]:
    """Return how many values fall into each of ``n`` bins, and the ``n`` + 1 edges between them.

    The bins are equally wide, from the least value to the greatest; each is closed on the left,
    the last one on the right too. Where all values are equal, all are in the last bin. There is at
    least one value.
    """
    least, greatest = values.min(), values.max()
    # By halves: the distance of two finite values may be more than the largest float.
    edges = np.clip(2 * np.linspace(least / 2, greatest / 2, n + 1), least, greatest)
    edges[0], edges[-1] = least, greatest
    # numpy finds the edges too, but refuses what is too close together to be divided.
    counts, _ = np.histogram(values, edges)
    return counts.astype(np.int64), edges


def correlation(x: Points, y: Points) -> float | None:
    """Return Pearson's correlation of the values at the same time of the same entity.

    Where several points of both have one time and entity, all their pairs count, as in an inner
    join. None where there are fewer than two pairs, or one side does not vary.
    """
    x_slots, y_slots = _slots(x, y)
    number = int(max(x_slots.max(initial=-1), y_slots.max(initial=-1))) + 1
    in_x, in_y = np.bincount(x_slots, minlength=number), np.bincount(y_slots, minlength=number)
    pairs = int(in_x @ in_y)
    if pairs < 2:
        return None
    # Sums over each slot give the sums over its pairs, however many those are.
    x_away = _distances(x.values, in_y[x_slots], pairs)
    y_away = _distances(y.values, in_x[y_slots], pairs)
    if x_away is None or y_away is None:
        return None
    together = np.bincount(x_slots, x_away, number) @ np.bincount(y_slots, y_away, number)
    x_square = in_y[x_slots] @ (x_away * x_away)
    y_square = in_x[y_slots] @ (y_away * y_away)
    return float(np.clip(together / np.sqrt(x_square) / np.sqrt(y_square), -1, 1))


def _slots(x: Points, y: Points) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return a number for each point, the same for the same time and entity."""
    _, times = np.unique(np.concatenate([x.ts, y.ts]), return_inverse=True)
    names, entities = np.unique(np.concatenate([x.entities, y.entities]), return_inverse=True)
    _, slots = np.unique(times * len(names) + entities, return_inverse=True)
    return slots[: len(x.ts)], slots[len(x.ts) :]


def _distances(values: Floats, weights: NDArray[np.intp], pairs: int) -> Floats | None:
    """Return how far values are from their weighted mean; None if all with a weight are equal.

    The largest is made 1, as Pearson's correlation allows, so that no square is too large or 0.
    """
    paired = weights > 0
    # By halves: the distance of two finite values may be more than the largest float.
    away = np.where(paired, values / 2 - values[paired].min() / 2, 0.0)
    if not away.any():
        return None
    away /= away.max()
    return np.where(paired, away - weights @ away / pairs, 0.0)
