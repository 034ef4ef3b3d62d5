"""Waiting for a condition instead of sleeping for luck."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")
_PAUSE = 0.02


def eventually(probe: Callable[[], T], *, timeout: float = 30.0, what: str = "") -> T:
    """Call ``probe`` until it returns something true, and return that; fail after ``timeout`` s.

    It is called at least once, however late that is: a timeout of 0 asks for it to be true now.
    An ``AssertionError`` or ``OSError`` from the probe counts as "not yet".
    """
    deadline = time.monotonic() + timeout
    last: object = None
    while True:
        try:
            value = probe()
            if value:
                return value
            last = value
        except (AssertionError, OSError) as error:
            last = error
        if time.monotonic() >= deadline:
            break
        time.sleep(_PAUSE)
    raise AssertionError(f"not within {timeout} s: {what or probe}; last: {last!r}")


async def aeventually(
    probe: Callable[[], Awaitable[T]], *, timeout: float = 30.0, what: str = ""
) -> T:
    """Do as ``eventually``, for a coroutine function."""
    deadline = time.monotonic() + timeout
    last: object = None
    while True:
        try:
            value = await probe()
            if value:
                return value
            last = value
        except (AssertionError, OSError) as error:
            last = error
        if time.monotonic() >= deadline:
            break
        await asyncio.sleep(_PAUSE)
    raise AssertionError(f"not within {timeout} s: {what or probe}; last: {last!r}")
