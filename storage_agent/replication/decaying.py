"""Counts that fade: of what happened one half-life ago, half still counts."""

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Decaying:
    """A count as it was at a time, in milliseconds."""

    value: float = 0.0
    at: int = 0

    def now(self, now: int, half_life_ms: int) -> float:
        """Return what is left of it."""
        return float(self.value * 2.0 ** (-max(0, now - self.at) / half_life_ms))

    def plus(self, amount: float, now: int, half_life_ms: int) -> "Decaying":
        """Return it with something that happens now."""
        return Decaying(self.now(now, half_life_ms) + amount, now)

    def per_minute(self, now: int, half_life_ms: int) -> float:
        """Return how often a minute something happens that makes this count stay as it is."""
        return self.now(now, half_life_ms) * math.log(2) * 60_000 / half_life_ms
