"""Clocks, which are functions that code receives as parameters, so that tests inject their own."""

import time
from collections.abc import Callable
from datetime import UTC, datetime

Clock = Callable[[], int]
"""A function that returns the time in milliseconds since the epoch."""

MAX_AHEAD_MS = 10_000
"""Points whose times are ahead of the clock by more than this time (ms) are future points."""


def system_clock() -> int:
    """Return the machine's time in milliseconds since the epoch."""
    return time.time_ns() // 1_000_000


def monotonic_clock() -> int:
    """Return the milliseconds since a fixed time, for ages and pauses: no step affects it."""
    return time.monotonic_ns() // 1_000_000


def time_words(ms: int) -> str:
    """Return a time in UTC, as ISO 8601.

    >>> time_words(0)
    '1970-01-01T00:00:00Z'
    """
    return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def utc_now() -> datetime:
    """Return the machine's time in UTC."""
    return datetime.now(UTC)
