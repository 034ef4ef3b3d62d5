"""From counters that only grow to rates."""


class Rates:
    """Remembers the last reading of each counter."""

    def __init__(self) -> None:
        self._last: dict[str, tuple[float, int]] = {}

    def per_second(self, counter: str, total: float, now_ms: int) -> float | None:
        """Return how fast ``counter`` grew since its last reading.

        None at the first reading, without time between the two, and when the counter went back
        (it was reset, so nobody knows how far it came).
        """
        last_total, last_ms = self._last.get(counter, (total, now_ms))
        self._last[counter] = (total, now_ms)
        if now_ms <= last_ms or total < last_total:
            return None
        return (total - last_total) * 1000 / (now_ms - last_ms)
