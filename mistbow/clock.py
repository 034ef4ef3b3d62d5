"""Time, as a seam: everything that asks for the time takes a clock."""

import time
from collections.abc import Callable

Clock = Callable[[], int]
"""Returns milliseconds since the epoch."""

AHEAD_MS = 10_000
"""A time that is further than this ahead of the clock is not believed yet."""


def system_clock() -> int:
    """Return this machine's time in milliseconds since the epoch."""
    return time.time_ns() // 1_000_000
