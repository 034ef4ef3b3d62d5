"""Aggregates of points: the states of all mergeable functions, as columns, and merges of ranges."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from analytics_worker.operators.points import Floats

Integers = npt.NDArray[np.int64]

AGGREGATE = np.dtype(
    [
        ("count", np.int64),
        ("sum", np.float64),
        ("min", np.float64),
        ("max", np.float64),
        ("m2", np.float64),
        ("logs", np.float64),
        ("ts", np.int64),
        ("value", np.float64),
    ]
)
"""The type of a stored aggregate; ``Aggregates`` describes the fields."""

_NEVER = -(2**62)


@dataclass(frozen=True, slots=True, eq=False)
class Aggregates:
    """Aggregates of sets of points, one set for each index of the arrays.

    ``m2``: the sum of the squared distances from the mean. ``logs``: the sum of the logarithms, NaN
    if a value is 0 or less. ``ts``, ``value``: the time (ms) and the value of the latest point; of
    several latest points, the greatest value. The aggregate of no points has ``count`` 0.
    """

    count: Integers
    sum: Floats
    min: Floats
    max: Floats
    m2: Floats
    logs: Floats
    ts: Integers
    value: Floats

    @classmethod
    def none(cls, number: int) -> "Aggregates":
        """Return a number of aggregates of no points."""
        zeros, ends = np.zeros(number), np.full(number, np.inf)
        return cls(
            np.zeros(number, np.int64), zeros, ends, -ends, zeros.copy(), zeros.copy(),
            np.full(number, _NEVER), -ends,
        )  # fmt: skip

    @classmethod
    def of_points(cls, ts: Integers, values: Floats) -> "Aggregates":
        """Return an aggregate of each point."""
        with np.errstate(divide="ignore", invalid="ignore"):
            logs = np.where(values > 0, np.log(values), np.nan)
        ones, zeros = np.ones(len(ts), np.int64), np.zeros(len(ts))
        return cls(ones, values, values, values, zeros, logs, ts, values)

    @classmethod
    def of_records(cls, records: npt.NDArray[np.void]) -> "Aggregates":
        """Return the aggregates in an array with the fields of ``AGGREGATE``."""
        return cls(*(np.ascontiguousarray(records[name]) for name in AGGREGATE.names or ()))

    @classmethod
    def concatenated(cls, parts: Sequence["Aggregates"]) -> "Aggregates":
        """Return the aggregates of at least one part, one part after the other."""
        return cls(*map(np.concatenate, zip(*(part.columns for part in parts), strict=True)))

    @property
    def columns(self) -> tuple[npt.NDArray[np.generic], ...]:
        """The arrays, in the order of ``AGGREGATE``."""
        return (self.count, self.sum, self.min, self.max, self.m2, self.logs, self.ts, self.value)

    def take(self, indices: Integers | slice) -> "Aggregates":
        """Return the aggregates at the given indices."""
        return Aggregates(*(column[indices] for column in self.columns))  # type: ignore[arg-type]

    def put(self, indices: Integers, others: "Aggregates") -> None:
        """Replace the aggregates at the given indices."""
        for column, other in zip(self.columns, others.columns, strict=True):
            column[indices] = other

    def merge(self, other: "Aggregates") -> "Aggregates":
        """Return the aggregates of the unions of disjoint sets, pair by pair.

        Source of the squared distances: Chan, Golub, LeVeque, "Algorithms for computing the sample
        variance" (The American Statistician 37, 1983), equation 2.1.
        """
        count = self.count + other.count
        with np.errstate(over="ignore", invalid="ignore"):  # what is not finite is no result
            away = other.sum / np.maximum(other.count, 1) - self.sum / np.maximum(self.count, 1)
            weights = self.count * (other.count / np.maximum(count, 1))
            m2 = self.m2 + other.m2 + np.where(weights > 0, away * away * weights, 0.0)
            sums, logs = self.sum + other.sum, self.logs + other.logs
        later = (other.ts > self.ts) | ((other.ts == self.ts) & (other.value > self.value))
        return Aggregates(
            count,
            sums,
            np.minimum(self.min, other.min),
            np.maximum(self.max, other.max),
            m2,
            logs,
            np.where(later, other.ts, self.ts),
            np.where(later, other.value, self.value),
        )


class RangeMerger:
    """Merges any ranges of aggregates, in time that grows with the logarithm of a range's length.

    The levels of the tree contain the merges of 1, 2, 4, … consecutive aggregates. A range is the
    union of at most two nodes of each level. Nothing is subtracted, since that would lose digits.
    """

    def __init__(self, aggregates: Aggregates) -> None:
        self._levels = [aggregates]
        while (number := len(self._levels[-1].count)) > 1:
            level = self._levels[-1]
            if number % 2:
                level = Aggregates.concatenated([level, Aggregates.none(1)])
            self._levels.append(level.take(slice(0, None, 2)).merge(level.take(slice(1, None, 2))))

    def merge(self, first: Integers, after: Integers) -> Aggregates:
        """Return the merge of the aggregates in each range ``first <= index < after``."""
        found = Aggregates.none(len(first))
        first, after = first.copy(), np.maximum(first, after)
        for level in self._levels:
            open_ranges = first < after
            if not open_ranges.any():
                break
            begin = np.flatnonzero(open_ranges & (first % 2 == 1))
            found.put(begin, found.take(begin).merge(level.take(first[begin])))
            first[begin] += 1
            end = np.flatnonzero((first < after) & (after % 2 == 1))
            after[end] -= 1
            found.put(end, found.take(end).merge(level.take(after[end])))
            first, after = first // 2, after // 2
        return found
