"""Polling of conditions, in place of sleeps of a fixed time."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

import httpx

T = TypeVar("T")
_NOT_YET = (AssertionError, OSError, httpx.TransportError)
_PAUSE = 0.02


def eventually(
    probe: Callable[[], T], *, timeout: float = 30.0, what: str = "", pause: float = _PAUSE
) -> T:
    """Call ``probe`` until it returns a true value, and return this value.

    Fails after ``timeout`` seconds, but calls the probe at least once, also with a timeout of 0. An
    ``AssertionError``, an ``OSError`` or an unanswered request of the probe counts as "not yet".
    ``pause``: the time (s) between two calls, longer for expensive probes.
    """
    deadline = time.monotonic() + timeout
    last: object = None
    while True:
        try:
            value = probe()
            if value:
                return value
            last = value
        except _NOT_YET as error:
            last = error
        if time.monotonic() >= deadline:
            break
        time.sleep(pause)
    raise AssertionError(f"not within {timeout} s: {what or probe}; last: {last!r}")


async def aeventually(
    probe: Callable[[], Awaitable[T]], *, timeout: float = 30.0, what: str = ""
) -> T:
    """Call and await ``probe`` until it returns a true value; see ``eventually``."""
    deadline = time.monotonic() + timeout
    last: object = None
    while True:
        try:
            value = await probe()
            if value:
                return value
            last = value
        except _NOT_YET as error:
            last = error
        if time.monotonic() >= deadline:
            break
        await asyncio.sleep(_PAUSE)
    raise AssertionError(f"not within {timeout} s: {what or probe}; last: {last!r}")
