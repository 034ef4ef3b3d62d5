"""The states of accumulators: functions that, at each point, cover all points up to this point.

A state can be encoded as JSON and decoded again. ``advance`` returns the state after further
values, and the function's value at each further value; NaN: the function is undefined there. Except
for rounding of means and deviations, results do not depend on how a stream is split into batches.
Points are ordered by time, then by arrival.
"""

import math
from collections.abc import Callable, Mapping
from itertools import accumulate, pairwise

import msgspec
import numpy as np

from analytics_worker.operators.points import Floats, Points
from mistbow.sampling.pewma import Pewma, check_alpha, number_of


class RunningCount(msgspec.Struct, frozen=True, tag="RUNNING_COUNT"):
    """The number of all values so far."""

    count: int = 0

    def advance(self, values: Floats) -> tuple["RunningCount", Floats]:
        """Return the state after further values, and the count at each of these values."""
        counts = self.count + np.arange(1.0, len(values) + 1)
        return RunningCount(self.count + len(values)), counts


class RunningMax(msgspec.Struct, frozen=True, tag="RUNNING_MAX"):
    """The maximum of all values so far; None without values."""

    maximum: float | None = msgspec.field(default=None, name="greatest")

    def advance(self, values: Floats) -> tuple["RunningMax", Floats]:
        """Return the state after further values, and the maximum at each of these values."""
        maximum = -math.inf if self.maximum is None else self.maximum
        maxima = np.maximum.accumulate(np.maximum(values, maximum))
        return RunningMax(_last(maxima, self.maximum)), maxima


class RunningMin(msgspec.Struct, frozen=True, tag="RUNNING_MIN"):
    """The minimum of all values so far; None without values."""

    minimum: float | None = msgspec.field(default=None, name="least")

    def advance(self, values: Floats) -> tuple["RunningMin", Floats]:
        """Return the state after further values, and the minimum at each of these values."""
        minimum = math.inf if self.minimum is None else self.minimum
        minima = np.minimum.accumulate(np.minimum(values, minimum))
        return RunningMin(_last(minima, self.minimum)), minima


class RunningMean(msgspec.Struct, frozen=True, tag="RUNNING_MEAN"):
    """The mean of all values so far; None if the mean is too large for a float."""

    count: int = 0
    mean: float | None = 0.0

    def advance(self, values: Floats) -> tuple["RunningMean", Floats]:
        """Return the state after further values, and the mean at each of these values."""
        _, means = _means(self.count, self.mean, values)
        return RunningMean(self.count + len(values), _last(means, self.mean)), means


class RunningSdev(msgspec.Struct, frozen=True, tag="RUNNING_SDEV"):
    """The population standard deviation of all values so far; 0 at the first value.

    ``m2`` is the sum of the squared distances of the values from the mean, after Welford ("Note on
    a method for calculating corrected sums of squares and products", Technometrics 4, 1962).
    ``mean`` and ``m2`` are None if they are too large for a float.
    """

    count: int = 0
    mean: float | None = 0.0
    m2: float | None = 0.0

    def advance(self, values: Floats) -> tuple["RunningSdev", Floats]:
        """Return the state after further values, and the standard deviation at each of these
        values.
        """
        before, means = _means(self.count, self.mean, values)
        counts = self.count + np.arange(1.0, len(values) + 1)
        with np.errstate(over="ignore", invalid="ignore"):
            # A sum of non-negative terms does not cancel.
            squares = np.cumsum((values - before) ** 2 * (counts - 1) / counts)
            squares += number_of(self.m2)
        state = RunningSdev(
            self.count + len(values), _last(means, self.mean), _last(squares, self.m2)
        )
        return state, np.sqrt(squares / counts)


class Ewma(msgspec.Struct, frozen=True, tag="EWMA"):
    """The exponentially weighted moving average: ``alpha`` is the weight of each new value.

    ``alpha`` is more than 0 and at most 1. The first value is the first average; ``average`` is
    None before the first value.
    """

    alpha: float
    average: float | None = None

    def __post_init__(self) -> None:
        check_alpha(self.alpha)

    def advance(self, values: Floats) -> tuple["Ewma", Floats]:
        """Return the state after further values, and the average at each of these values."""
        if not len(values):
            return self, values
        new, old = self.alpha, 1 - self.alpha
        first = values[0] if self.average is None else new * values[0] + old * self.average
        # Each average is computed from the rounded one before, so that a split changes nothing.
        rest = (new * values[1:]).tolist()
        averages = np.array(list(accumulate(rest, lambda a, x: x + old * a, initial=float(first))))
        return Ewma(self.alpha, _last(averages, None)), averages


class Diff(msgspec.Struct, frozen=True, tag="DIFF"):
    """The difference between each value and the previous value; NaN at the first value.

    ``previous``: the last value so far; None before the first value.
    """

    previous: float | None = None

    def advance(self, values: Floats) -> tuple["Diff", Floats]:
        """Return the state after further values, and the difference at each of these values."""
        first = math.nan if self.previous is None else self.previous
        with np.errstate(over="ignore"):
            steps = np.diff(values, prepend=first)
        return Diff(_last(values, self.previous)), steps


class PointSpan(msgspec.Struct, frozen=True, tag="SPAN"):
    """The points of a key since its last n-th point; ``every`` is n.

    ``count``: the number of all points so far. The other fields are the times (ms), the values and
    the entities of the points since the last span.
    """

    every: int
    count: int = 0
    ts: tuple[int, ...] = ()
    values: tuple[float, ...] = ()
    entities: tuple[str, ...] = ()

    def divide(self, points: Points) -> tuple["PointSpan", list[Points]]:
        """Return the state after further points, and the spans that end among these points.

        A span ends with the time of an n-th point, and contains all points of this time.
        """
        before = len(self.ts)
        both = Points(
            np.concatenate([np.array(self.ts, np.int64), points.ts]),
            np.concatenate([np.array(self.values, np.float64), points.values]),
            np.concatenate([np.array(self.entities, object), points.entities]),
        )
        ends = np.unique(np.searchsorted(points.ts, points.ts, side="right"))
        counts = self.count + ends
        passed = counts // self.every > np.concatenate([[self.count], counts[:-1]]) // self.every
        bounds = [0, *(before + ends[passed]).tolist()]
        spans = [_part(both, first, last) for first, last in pairwise(bounds)]
        rest = _part(both, bounds[-1], len(both.ts))
        state = PointSpan(
            self.every,
            self.count + len(points.ts),
            tuple(rest.ts.tolist()),
            tuple(rest.values.tolist()),
            tuple(rest.entities.tolist()),
        )
        return state, spans


def _part(points: Points, first: int, last: int) -> Points:
    part = slice(first, last)
    return Points(points.ts[part], points.values[part], points.entities[part])


RunningFunction = (
    RunningCount | RunningMean | RunningMax | RunningMin | RunningSdev | Ewma | Pewma | Diff
)  # fmt: skip
"""The state of an accumulator that has a value at each point."""

AccumulatorState = RunningFunction | PointSpan
"""The state of any accumulator; the JSON of a state names the accumulator's function."""

START: Mapping[str, Callable[..., RunningFunction]] = {
    "RUNNING_COUNT": RunningCount,
    "RUNNING_MEAN": RunningMean,
    "RUNNING_MAX": RunningMax,
    "RUNNING_MIN": RunningMin,
    "RUNNING_SDEV": RunningSdev,
    "EWMA": Ewma,
    "PEWMA": Pewma,
    "DIFF": Diff,
}
"""Function name -> the constructor that makes the initial state from the function's parameters."""


def _means(count: int, mean: float | None, values: Floats) -> tuple[Floats, Floats]:
    """Return two arrays: the mean before each value, and the mean after each value."""
    # Deviations from a mean lose less to rounding than the values themselves.
    origin = number_of(mean) if count else (values[0] if len(values) else 0.0)
    counts = count + np.arange(1.0, len(values) + 1)
    with np.errstate(over="ignore", invalid="ignore"):
        after = origin + np.cumsum(values - origin) / counts
    return np.concatenate([[origin], after[:-1]])[: len(values)], after


def _last(outputs: Floats, otherwise: float | None) -> float | None:
    return float(outputs[-1]) if len(outputs) else otherwise
