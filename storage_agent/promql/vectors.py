"""Instant vectors at many timestamps: a row for each series, a column for each timestamp."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from storage_agent.promql.errors import PromqlError
from storage_agent.promql.labels import NAME, Labels

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

SAME_LABELS = "vector cannot contain metrics with the same labelset"


@dataclass(frozen=True, slots=True)
class Vector:
    """The instant vectors at several timestamps.

    ``labels``: the labels of each series. ``values``, ``present``: arrays of shape (series,
    timestamps); a value is valid only where ``present`` is True.
    """

    labels: list[Labels]
    values: Floats
    present: Bools

    def rows(self, selection: npt.NDArray[Any]) -> "Vector":
        """Return a vector with some of the rows; ``selection``: an array of indices, or a mask."""
        numbers = np.arange(len(self.labels))[selection]
        return Vector(
            [self.labels[n] for n in numbers], self.values[numbers], self.present[numbers]
        )


def empty(times: int) -> Vector:
    """Return a vector without series; ``times``: the number of timestamps."""
    return Vector([], np.empty((0, times)), np.empty((0, times), np.bool_))


def without_name(labels: Labels) -> Labels:
    """Return the labels of a series except the metric name."""
    return tuple(pair for pair in labels if pair[0] != NAME)


def group_keys(keys: Iterable[Labels]) -> tuple[list[Labels], Ints]:
    """Return the distinct keys, and for each given key its index in the list of distinct keys.

    The distinct keys are in the order of their first appearance.
    """
    numbers: dict[Labels, int] = {}
    indices = [numbers.setdefault(key, len(numbers)) for key in keys]
    return list(numbers), np.array(indices, np.int64)


def distinct(vector: Vector, *, strict: bool = False) -> Vector:
    """Merge rows with the same labels, and drop rows that are not present at any timestamp.

    Raises ``PromqlError`` if two rows with the same labels are present at the same timestamp, or,
    if ``strict`` is True, at any timestamps.
    """
    ever_present: Bools = np.any(vector.present, axis=1)
    if not ever_present.all():
        vector = vector.rows(ever_present)
    keys, number = group_keys(vector.labels)
    if len(keys) == len(vector.labels):
        return vector
    if strict:
        raise PromqlError(SAME_LABELS)
    return merge_rows(vector, keys, number)


def merge_rows(
    vector: Vector, keys: list[Labels], number: Ints, message: str = SAME_LABELS
) -> Vector:
    """Merge rows with the same number; the merged row n has the labels ``keys[n]``.

    ``number``: the number of each row. Raises ``PromqlError`` with ``message`` if two rows with the
    same number are present at the same timestamp.
    """
    count = np.zeros((len(keys), vector.values.shape[1]), np.int64)
    np.add.at(count, number, vector.present)
    if (count > 1).any():
        raise PromqlError(message)
    values = np.zeros(count.shape)
    row, column = np.nonzero(vector.present)
    values[number[row], column] = vector.values[row, column]
    return Vector(keys, values, count > 0)
