"""Accumulated operators: a value for each point, of that point and all before it.

Each state is a value that goes to JSON and back. ``advance`` returns the state after more values,
and what the operator says at each of them; so wherever a stream is split, its results are the same
(up to rounding for means and deviations, and to the bit for all else). Points come in the order of
their time, and of their arrival where that is equal.
"""

import math
from collections.abc import Callable, Mapping
from itertools import accumulate
from typing import Protocol, Self

import msgspec
import numpy as np

from mistbow.operators.points import Floats

BETA = 0.5
"""How far PEWMA trusts the probability of a value: 0 would make it EWMA."""

WARM_UP = 30
"""After how many values PEWMA knows their spread."""

_PEAK = 1 / math.sqrt(2 * math.pi)


class Accumulated(Protocol):
    """The state of an accumulated operator after the values so far."""

    def advance(self, values: Floats) -> tuple[Self, Floats]:
        """Return the state after these values, and what is said at each; NaN says nothing."""
        ...


class RunningCount(msgspec.Struct, frozen=True, tag="RUNNING_COUNT"):
    """How many values there were."""

    count: int = 0

    def advance(self, values: Floats) -> tuple["RunningCount", Floats]:
        """See ``Accumulated``."""
        counts = self.count + np.arange(1.0, len(values) + 1)
        return RunningCount(self.count + len(values)), counts


class RunningMax(msgspec.Struct, frozen=True, tag="RUNNING_MAX"):
    """The greatest value."""

    greatest: float | None = None

    def advance(self, values: Floats) -> tuple["RunningMax", Floats]:
        """See ``Accumulated``."""
        known = -math.inf if self.greatest is None else self.greatest
        most = np.maximum.accumulate(np.maximum(values, known))
        return RunningMax(_last(most, self.greatest)), most


class RunningMin(msgspec.Struct, frozen=True, tag="RUNNING_MIN"):
    """The least value."""

    least: float | None = None

    def advance(self, values: Floats) -> tuple["RunningMin", Floats]:
        """See ``Accumulated``."""
        known = math.inf if self.least is None else self.least
        fewest = np.minimum.accumulate(np.minimum(values, known))
        return RunningMin(_last(fewest, self.least)), fewest


class RunningMean(msgspec.Struct, frozen=True, tag="RUNNING_MEAN"):
    """The mean of all values; None where it is too large for a float."""

    count: int = 0
    mean: float | None = 0.0

    def advance(self, values: Floats) -> tuple["RunningMean", Floats]:
        """See ``Accumulated``."""
        _, means = _means(self.count, self.mean, values)
        return RunningMean(self.count + len(values), _last(means, self.mean)), means


class RunningSdev(msgspec.Struct, frozen=True, tag="RUNNING_SDEV"):
    """The standard deviation of the population of all values: 0 at the first.

    ``m2`` is the sum of squared distances from the mean, as Welford keeps it ("Note on a method for
    calculating corrected sums of squares and products", Technometrics 4, 1962).
    """

    count: int = 0
    mean: float | None = 0.0
    m2: float | None = 0.0

    def advance(self, values: Floats) -> tuple["RunningSdev", Floats]:
        """See ``Accumulated``."""
        before, means = _means(self.count, self.mean, values)
        counts = self.count + np.arange(1.0, len(values) + 1)
        with np.errstate(over="ignore", invalid="ignore"):
            # Only sums of what is not negative: nothing cancels.
            squares = np.cumsum((values - before) ** 2 * (counts - 1) / counts)
            squares += _known(self.m2)
        state = RunningSdev(
            self.count + len(values), _last(means, self.mean), _last(squares, self.m2)
        )
        return state, np.sqrt(squares / counts)


class Ewma(msgspec.Struct, frozen=True, tag="EWMA"):
    """The exponentially weighted moving average: ``alpha`` is the weight of each new value.

    ``alpha`` is more than 0 and at most 1; the first value is the first average.
    """

    alpha: float
    average: float | None = None

    def __post_init__(self) -> None:
        _check(self.alpha)

    def advance(self, values: Floats) -> tuple["Ewma", Floats]:
        """See ``Accumulated``."""
        if not len(values):
            return self, values
        new, old = self.alpha, 1 - self.alpha
        first = values[0] if self.average is None else new * values[0] + old * self.average
        # Each average needs the one before, as rounded, for a split to change nothing.
        rest = (new * values[1:]).tolist()
        averages = np.array(list(accumulate(rest, lambda a, x: x + old * a, initial=float(first))))
        return Ewma(self.alpha, _last(averages, None)), averages


class Pewma(msgspec.Struct, frozen=True, tag="PEWMA"):
    """The probabilistic EWMA: a value moves the average the less, the less probable it is.

    After Carter and Streilein, "Probabilistic reasoning for streaming anomaly detection" (IEEE
    Statistical Signal Processing Workshop, 2012). The weight of the past is
    ``(1 - BETA * P) * (1 - alpha)``, where P is the density of the standard normal distribution at
    the value's distance from the average in standard deviations. Theirs is called alpha there; here
    ``alpha`` is the weight of a new and improbable value, as for EWMA, and ``BETA`` is ours. The
    first ``WARM_UP`` values have equal weights. ``variance`` is their s2 - s1², kept so that
    nothing cancels, and None where it is too large for a float.
    """

    alpha: float
    count: int = 0
    average: float = 0.0
    variance: float | None = 0.0

    def __post_init__(self) -> None:
        _check(self.alpha)

    def advance(self, values: Floats) -> tuple["Pewma", Floats]:
        """See ``Accumulated``."""
        count, average, variance = self.count, self.average, _known(self.variance)
        averages = np.empty(len(values))
        for place, value in enumerate(values.tolist()):
            count += 1
            away = value - average
            if count <= WARM_UP:
                past = 1 - 1 / count
            else:
                past = (1 - BETA * _probability(away, variance)) * (1 - self.alpha)
            average = past * average + (1 - past) * value
            # Where the past does not count, an infinite distance from it must not either.
            variance = past * (variance + (1 - past) * (away * away)) if past else 0.0
            averages[place] = average
        return Pewma(self.alpha, count, average, variance), averages


class Diff(msgspec.Struct, frozen=True, tag="DIFF"):
    """What each value is more than the one before; the first says nothing."""

    previous: float | None = None

    def advance(self, values: Floats) -> tuple["Diff", Floats]:
        """See ``Accumulated``."""
        first = math.nan if self.previous is None else self.previous
        with np.errstate(over="ignore"):
            steps = np.diff(values, prepend=first)
        return Diff(_last(values, self.previous)), steps


State = (
    RunningCount | RunningMean | RunningMax | RunningMin | RunningSdev | Ewma | Pewma | Diff
)  # fmt: skip
"""The state of any of them; its tag in JSON is the operator's name."""

START: Mapping[str, Callable[..., State]] = {
    "RUNNING_COUNT": RunningCount,
    "RUNNING_MEAN": RunningMean,
    "RUNNING_MAX": RunningMax,
    "RUNNING_MIN": RunningMin,
    "RUNNING_SDEV": RunningSdev,
    "EWMA": Ewma,
    "PEWMA": Pewma,
    "DIFF": Diff,
}
"""What makes the state before the first value, from the operator's parameters."""


def _means(count: int, mean: float | None, values: Floats) -> tuple[Floats, Floats]:
    """Return the mean before each value, and after it."""
    # Distances from a mean lose less to rounding than the values themselves.
    origin = _known(mean) if count else (values[0] if len(values) else 0.0)
    counts = count + np.arange(1.0, len(values) + 1)
    with np.errstate(over="ignore", invalid="ignore"):
        after = origin + np.cumsum(values - origin) / counts
    return np.concatenate([[origin], after[:-1]])[: len(values)], after


def _probability(away: float, variance: float) -> float:
    if 0 < variance < math.inf:
        return _PEAK * math.exp(-away * away / variance / 2)
    return _PEAK if away == 0 else 0.0


def _last(outputs: Floats, otherwise: float | None) -> float | None:
    return float(outputs[-1]) if len(outputs) else otherwise


def _known(number: float | None) -> float:
    """Return a number as it was before JSON, which has neither NaN nor infinity."""
    return math.nan if number is None else number


def _check(alpha: float) -> None:
    if not 0 < alpha <= 1:
        raise ValueError(f"alpha is more than 0 and at most 1, not {alpha}")
