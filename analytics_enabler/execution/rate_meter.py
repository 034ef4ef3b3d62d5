"""The measurement of a counter's rate."""

from collections import deque

READINGS = 13
STEP_S = 5.0


class RateMeter:
    """Measures a counter's rate over the last minute; stores one reading per ``STEP_S`` seconds."""

    def __init__(self) -> None:
        self._readings: deque[tuple[float, int]] = deque(maxlen=READINGS)

    def read(self, now: float, count: int) -> None:
        """Add a reading of the counter at the time ``now`` (s).

        A count below the previous reading means that the counter was restarted: the earlier
        readings are dropped.
        """
        if self._readings and count < self._readings[-1][1]:
            self._readings.clear()
        if not self._readings or now - self._readings[-1][0] >= STEP_S:
            self._readings.append((now, count))

    @property
    def rate(self) -> float | None:
        """The increase of the counter per second; None: fewer than two readings are stored."""
        if len(self._readings) < 2:
            return None
        (start, first), (end, last) = self._readings[0], self._readings[-1]
        return (last - first) / (end - start)
