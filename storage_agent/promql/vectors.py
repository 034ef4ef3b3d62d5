"""Values of expressions at many times at once: a row for each series, a column for each time."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from storage_agent.promql.labels import NAME, Labels
from storage_agent.promql.problems import PromqlError

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

SAME_LABELS = "vector cannot contain metrics with the same labelset"


@dataclass(frozen=True, slots=True)
class Vector:
    """An instant vector at each time: ``values`` (series, times) count where ``present``."""

    labels: list[Labels]
    values: Floats
    present: Bools

    def rows(self, chosen: npt.NDArray[Any]) -> "Vector":
        """Return some of the rows, by their numbers or by a truth for each."""
        numbers = np.arange(len(self.labels))[chosen]
        return Vector(
            [self.labels[n] for n in numbers], self.values[numbers], self.present[numbers]
        )


def empty(times: int) -> Vector:
    """Return a vector without series."""
    return Vector([], np.empty((0, times)), np.empty((0, times), np.bool_))


def without_name(labels: Labels) -> Labels:
    """Return labels without the metric's name."""
    return tuple(pair for pair in labels if pair[0] != NAME)


def numbered(keys: Iterable[Labels]) -> tuple[list[Labels], Ints]:
    """Return the distinct keys in order of their appearance, and the number of each one's."""
    numbers: dict[Labels, int] = {}
    of_each = [numbers.setdefault(key, len(numbers)) for key in keys]
    return list(numbers), np.array(of_each, np.int64)


def distinct(vector: Vector, *, ever: bool = False) -> Vector:
    """Join rows with the same labels, and leave out those that are never there.

    Raises ``PromqlError`` where two are there at once (``ever``: at any times).
    """
    lasting: Bools = np.any(vector.present, axis=1)
    if not lasting.all():
        vector = vector.rows(lasting)
    keys, number = numbered(vector.labels)
    if len(keys) == len(vector.labels):
        return vector
    if ever:
        raise PromqlError(SAME_LABELS)
    return joined(vector, keys, number)


def joined(vector: Vector, keys: list[Labels], number: Ints, message: str = SAME_LABELS) -> Vector:
    """Make one row of the rows with the same number; raises where two are there at once."""
    count = np.zeros((len(keys), vector.values.shape[1]), np.int64)
    np.add.at(count, number, vector.present)
    if (count > 1).any():
        raise PromqlError(message)
    values = np.zeros(count.shape)
    row, column = np.nonzero(vector.present)
    values[number[row], column] = vector.values[row, column]
    return Vector(keys, values, count > 0)
