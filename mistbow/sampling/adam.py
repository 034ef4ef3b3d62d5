"""AdaM: how long to wait for the next value of a series, from how steadily it changes."""

import math

import msgspec
import numpy as np

from mistbow.operators.accumulated import Pewma

_NEW = 0.1
"""The weight of a new change in the moving variance of changes."""


class Settings(msgspec.Struct, frozen=True):
    """The least and greatest period, and how sure AdaM must be to make one longer, in (0, 1)."""

    shortest_ms: int
    longest_ms: int
    confidence: float

    def __post_init__(self) -> None:
        if not 0 < self.shortest_ms <= self.longest_ms:
            raise ValueError(
                f"periods go from above 0 to no less, not {self.shortest_ms} to {self.longest_ms}"
            )
        if not 0 < self.confidence < 1:
            raise ValueError(f"a confidence is between 0 and 1, not {self.confidence}")


class State(msgspec.Struct, frozen=True):
    """What AdaM knows of a series: its last value, how its changes vary, and the period now."""

    ts: int | None = None
    value: float = 0.0
    changes: Pewma = Pewma(_NEW)
    period_ms: float = 0.0


class Adam:
    """Adapts the period of one series.

    After Trihinas, Pallis and Dikaiakos, "AdaM: an adaptive monitoring framework for sampling and
    filtering on IoT devices" (IEEE BigData 2015, section IV), with lambda as one shortest period,
    and as imprecision (gamma) what lacks in confidence. If the deviation of the changes is what was
    expected, the period grows by one to two shortest ones; if not, it is the shortest. Pass the
    ``state`` of an earlier one to go on from there.
    """

    def __init__(self, settings: Settings, state: State | None = None) -> None:
        self._settings = settings
        self.state = state or State(period_ms=settings.shortest_ms)

    def wants(self, ts: int) -> bool:
        """Whether the period is over at ``ts`` (ms since the epoch)."""
        return self.state.ts is None or ts >= self.state.ts + self.state.period_ms

    def feed(self, ts: int, value: float) -> int:
        """Take a value and return the time until the next should be taken, in ms.

        A value that is not newer than the last, or not a number, changes nothing.

        >>> adam = Adam(Settings(shortest_ms=1000, longest_ms=5000, confidence=0.9))
        >>> [adam.feed(ts, 20.0) for ts in (0, 1000, 3900, 7800)]
        [1000, 2900, 4800, 5000]
        """
        state = self.state
        if not math.isfinite(value) or (state.ts is not None and ts <= state.ts):
            return int(state.period_ms)
        changes, period = state.changes, state.period_ms
        if state.ts is not None:
            changes, _ = changes.advance(np.array([abs(value - state.value)]))
            period = self._period(_confidence(state.changes, changes))
        self.state = State(ts, float(value), changes, period)
        return int(period)

    def _period(self, confidence: float) -> float:
        settings = self._settings
        if confidence < settings.confidence:
            return settings.shortest_ms
        imprecision = 1 - settings.confidence
        growth = settings.shortest_ms * (1 + (confidence - imprecision) / confidence)
        longer = self.state.period_ms + growth
        return min(max(longer, settings.shortest_ms), settings.longest_ms)


def _confidence(expected: Pewma, found: Pewma) -> float:
    """Return how near the deviation of the changes is to the one expected: 1 is the same."""
    was, now = math.sqrt(expected.variance or 0), math.sqrt(found.variance or 0)
    if was == now:
        return 1.0
    return 1 - abs(was - now) / now if 0 < now < math.inf else 0.0
