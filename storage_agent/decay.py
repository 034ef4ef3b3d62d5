"""Counts that decay exponentially with a half-life, and the stability that follows from them."""

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class DecayingCount:
    """A count that decays exponentially. ``value``: the count at the time ``at`` (ms).

    >>> DecayingCount(8.0, at=0).now(2000, half_life_ms=1000)
    2.0
    """

    value: float = 0.0
    at: int = 0

    def now(self, now: int, half_life_ms: int) -> float:
        """Return the value of the count at the time ``now`` (ms)."""
        return float(self.value * 2.0 ** (-max(0, now - self.at) / half_life_ms))

    def plus(self, amount: float, now: int, half_life_ms: int) -> "DecayingCount":
        """Return this count, increased by ``amount`` at the time ``now`` (ms)."""
        return DecayingCount(self.now(now, half_life_ms) + amount, now)

    def per_minute(self, now: int, half_life_ms: int) -> float:
        """Return the number of events per minute with which this count would stay constant."""
        return self.now(now, half_life_ms) * math.log(2) * 60_000 / half_life_ms


def stability(instability: float) -> float:
    """Return the stability, from 0 to 1, that corresponds to an instability.

    >>> stability(0), stability(1), stability(3)
    (1.0, 0.5, 0.25)
    """
    return 1 / (1 + instability)
