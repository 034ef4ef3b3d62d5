"""Counts that decay exponentially with a half-life."""

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
