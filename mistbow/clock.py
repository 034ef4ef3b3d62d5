"""Time, as a seam: everything that asks for the time takes a clock."""

import time
from collections.abc import Callable

Clock = Callable[[], int]
"""Returns milliseconds since the epoch."""


def system_clock() -> int:
    """Return this machine's time in milliseconds since the epoch."""
    return time.time_ns() // 1_000_000
