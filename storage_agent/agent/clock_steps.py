"""Steps of the machine's clock, such as those of a wrong time server."""

import time
from collections.abc import Callable
from datetime import UTC, datetime

from mistbow.clock import MAX_AHEAD_MS, Clock
from mistbow.telemetry import get_logger

log = get_logger(__name__)

_MAX_SLEW_MS = 60_000
_CONFIRMATION_S = 24 * 3600.0


class ExpiryClock:
    """The clock by which rows expire: a step forward counts only after it has lasted for a day.

    Otherwise, a clock that is wrong for a moment would delete the data of a month. Meanwhile, this
    clock continues at its usual pace. A step back counts at once. ``monotonic``: returns the
    seconds since a fixed time, which no step affects.
    """

    def __init__(self, clock: Clock, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._monotonic = monotonic
        self._time = clock()
        self._read_at = monotonic()
        self._stepped_at: float | None = None

    def __call__(self) -> int:
        """Return the time (ms) by which rows expire."""
        now, read_at = self._clock(), self._monotonic()
        self._time += int((read_at - self._read_at) * 1000)
        self._read_at = read_at
        step = now - self._time
        if step <= _MAX_SLEW_MS:
            self._follow(now)
        elif self._stepped_at is None:
            self._stepped_at = read_at
            log.warning("clock_stepped_forward", step_s=step // 1000)
        elif read_at - self._stepped_at >= _CONFIRMATION_S:
            self._follow(now)
        return self._time

    def _follow(self, now: int) -> None:
        self._time = now
        self._stepped_at = None


def frontier_warnings(frontier: int, now: int) -> list[str]:
    """Return the problem of a frontier ahead of the clock (both ms); empty: no problem."""
    if frontier <= now + MAX_AHEAD_MS:
        return []
    until = datetime.fromtimestamp(frontier / 1000, UTC).isoformat(" ", "seconds")
    return [
        f"the clock was set back: the frontier of raw is {(frontier - now) // 1000} s ahead of it. "
        f"Points are stored and can be read, but those before {until} are late, so insights over "
        "them are corrections"
    ]
