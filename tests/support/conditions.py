"""Polling of conditions, in place of sleeps of a fixed time."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

import httpx

T = TypeVar("T")
_NOT_YET = (AssertionError, OSError, httpx.TransportError)
_MIN_PAUSE = 0.02
_MAX_PAUSE = 0.2


def _pause(waited: float) -> float:
    """Return the time (s) until the next call of a probe after a wait of ``waited`` seconds.

    Frequent calls over many seconds would keep the machine busy with answers to probes.
    """
    return min(max(_MIN_PAUSE, waited / 10), _MAX_PAUSE)


def eventually(
    probe: Callable[[], T], *, timeout: float = 30.0, what: str = "", pause: float | None = None
) -> T:
    """Call ``probe`` until it returns a true value, and return this value.

    Fails after ``timeout`` seconds, but calls the probe at least once, also with a timeout of 0. An
    ``AssertionError``, an ``OSError`` or an unanswered request of the probe counts as "not yet".
    ``pause``: the time (s) between two calls; None: a tenth of the time waited so far, from 0.02 to
    0.2.
    """
    began = time.monotonic()
    last: object = None
    while True:
        try:
            value = probe()
            if value:
                return value
            last = value
        except _NOT_YET as error:
            last = error
        waited = time.monotonic() - began
        if waited >= timeout:
            break
        time.sleep(_pause(waited) if pause is None else pause)
    raise AssertionError(f"not within {timeout} s: {what or probe}; last: {last!r}")


async def aeventually(
    probe: Callable[[], Awaitable[T]], *, timeout: float = 30.0, what: str = ""
) -> T:
    """Call and await ``probe`` until it returns a true value; see ``eventually``."""
    began = time.monotonic()
    last: object = None
    while True:
        try:
            value = await probe()
            if value:
                return value
            last = value
        except _NOT_YET as error:
            last = error
        waited = time.monotonic() - began
        if waited >= timeout:
            break
        await asyncio.sleep(_pause(waited))
    raise AssertionError(f"not within {timeout} s: {what or probe}; last: {last!r}")
