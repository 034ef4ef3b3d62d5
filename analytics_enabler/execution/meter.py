"""How fast a counter grows."""

from collections import deque

SPAN = 13
STEP_S = 5.0


class Meter:
    """The rate of a counter over the last minute."""

    def __init__(self) -> None:
        self._readings: deque[tuple[float, int]] = deque(maxlen=SPAN)

    def read(self, now: float, count: int) -> None:
        """Note what the counter says at a time, in seconds; one that fell has begun anew."""
        if self._readings and count < self._readings[-1][1]:
            self._readings.clear()
        if not self._readings or now - self._readings[-1][0] >= STEP_S:
            self._readings.append((now, count))

    @property
    def rate(self) -> float | None:
        """How much it grows a second; None until that is known."""
        if len(self._readings) < 2:
            return None
        (start, least), (end, most) = self._readings[0], self._readings[-1]
        return (most - least) / (end - start)
