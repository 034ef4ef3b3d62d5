"""AdaM: adapts the sampling period of a series to the variability of its values."""

import math

import msgspec
import numpy as np

from mistbow.sampling.pewma import Pewma

_ALPHA = 0.1
"""The weight of a new change of the value in the moving variance of the changes."""


class Settings(msgspec.Struct, frozen=True):
    """The bounds of the sampling period (ms), and the confidence from which the period grows.

    ``confidence``: greater than 0 and less than 1.
    """

    min_ms: int
    max_ms: int
    confidence: float

    def __post_init__(self) -> None:
        if not 0 < self.min_ms <= self.max_ms:
            raise ValueError(
                "AdaM: the minimum period must be above 0 ms and at most the maximum period "
                f"(got a minimum of {self.min_ms} ms and a maximum of {self.max_ms} ms)"
            )
        if not 0 < self.confidence < 1:
            raise ValueError(
                f"AdaM: the confidence must be between 0 and 1 (got {self.confidence})"
            )


class AdamState(msgspec.Struct, frozen=True):
    """The state of AdaM for a series: the last value, its time ``ts`` (ms), and the period.

    ``changes``: the moving average and variance of the absolute changes of the value.
    """

    ts: int | None = None
    value: float = 0.0
    changes: Pewma = Pewma(_ALPHA)
    period_ms: float = 0.0


class Adam:
    """Adapts the period of one series.

    After Trihinas, Pallis and Dikaiakos, "AdaM: an adaptive monitoring framework for sampling and
    filtering on IoT devices" (IEEE BigData 2015, section IV). Here the paper's lambda is one
    minimum period, and the paper's imprecision gamma is 1 - confidence. If the standard deviation
    of the changes is as expected, the period grows by up to two minimum periods; otherwise the
    period becomes the minimum. ``state``: the state from which to continue; None: no value was
    measured before.
    """

    def __init__(self, settings: Settings, state: AdamState | None = None) -> None:
        self._settings = settings
        self.state = state or AdamState(period_ms=settings.min_ms)

    def is_due(self, ts: int) -> bool:
        """Return whether the sampling period has ended at ``ts`` (ms since the epoch)."""
        return self.state.ts is None or ts >= self.state.ts + self.state.period_ms

    def advance(self, ts: int, value: float) -> int:
        """Add a value measured at ``ts`` (ms), and return the period (ms) until the next value.

        A value that is not finite, or not newer than the last value, is ignored: the period remains
        unchanged.

        >>> adam = Adam(Settings(min_ms=1000, max_ms=5000, confidence=0.9))
        >>> [adam.advance(ts, 20.0) for ts in (0, 1000, 3900, 7800)]
        [1000, 2900, 4800, 5000]
        """
        state = self.state
        if not math.isfinite(value) or (state.ts is not None and ts <= state.ts):
            return int(state.period_ms)
        changes, period = state.changes, state.period_ms
        if state.ts is not None:
            changes, _ = changes.advance(np.array([abs(value - state.value)]))
            period = self._period(_confidence(state.changes, changes))
        self.state = AdamState(ts, float(value), changes, period)
        return int(period)

    def _period(self, confidence: float) -> float:
        settings = self._settings
        if confidence < settings.confidence:
            return settings.min_ms
        imprecision = 1 - settings.confidence
        growth = settings.min_ms * (1 + (confidence - imprecision) / confidence)
        longer = self.state.period_ms + growth
        return min(max(longer, settings.min_ms), settings.max_ms)


def _confidence(expected: Pewma, found: Pewma) -> float:
    """Return AdaM's confidence: 1 minus the relative error of the expected standard deviation.

    ``expected``, ``found``: the moving statistics of the changes before and after the last change.
    The confidence is 1 if both standard deviations are equal. Otherwise it is below 1; if the
    standard deviation of ``found`` is 0 or infinite, it is 0.
    """
    was, now = math.sqrt(expected.variance or 0), math.sqrt(found.variance or 0)
    if was == now:
        return 1.0
    return 1 - abs(was - now) / now if 0 < now < math.inf else 0.0
