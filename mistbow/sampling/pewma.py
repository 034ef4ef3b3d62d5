"""PEWMA: an exponentially weighted moving average that weights values by their probability."""

import math

import msgspec
import numpy as np
from numpy.typing import NDArray

BETA = 0.5
"""The influence of a value's probability on the value's weight; with 0, PEWMA would be EWMA."""

WARM_UP = 30
"""The number of values at the start that have equal weights."""

_PEAK = 1 / math.sqrt(2 * math.pi)


class Pewma(msgspec.Struct, frozen=True, tag="PEWMA"):
    """The state of the probabilistic EWMA: an improbable value changes the average less than a
    probable value.

    After Carter and Streilein, "Probabilistic reasoning for streaming anomaly detection" (IEEE
    Statistical Signal Processing Workshop, 2012). The weight of the past is ``(1 - BETA * P) * (1 -
    alpha)``, where P is the density of the standard normal distribution at the value's distance
    from the average in standard deviations. The paper's alpha is the weight of the past; here
    ``alpha`` is the weight of a new and improbable value, as for EWMA. ``variance`` is the paper's
    s2 - s1², computed without cancellation; None: infinite or NaN.
    """

    alpha: float
    count: int = 0
    average: float = 0.0
    variance: float | None = 0.0

    def __post_init__(self) -> None:
        check_alpha(self.alpha)

    def advance(self, values: NDArray[np.float64]) -> tuple["Pewma", NDArray[np.float64]]:
        """Return the state after the values, and the average after each value."""
        count, average, variance = self.count, self.average, number_of(self.variance)
        averages = np.empty(len(values))
        for index, value in enumerate(values.tolist()):
            count += 1
            distance = value - average
            if count <= WARM_UP:
                past = 1 - 1 / count
            else:
                past = (1 - BETA * _probability(distance, variance)) * (1 - self.alpha)
            average = past * average + (1 - past) * value
            # Without weight of the past, an infinite distance from it has none either.
            variance = past * (variance + (1 - past) * (distance * distance)) if past else 0.0
            averages[index] = average
        return Pewma(self.alpha, count, average, variance), averages


def check_alpha(alpha: float) -> None:
    """Raise ``ValueError`` for an ``alpha`` outside (0, 1]."""
    if not 0 < alpha <= 1:
        raise ValueError(f"alpha must be above 0 and at most 1 (got {alpha})")


def number_of(number: float | None) -> float:
    """Return a number as read from JSON: None becomes NaN, other numbers do not change."""
    return math.nan if number is None else number


def _probability(distance: float, variance: float) -> float:
    if 0 < variance < math.inf:
        return _PEAK * math.exp(-distance * distance / variance / 2)
    return _PEAK if distance == 0 else 0.0
