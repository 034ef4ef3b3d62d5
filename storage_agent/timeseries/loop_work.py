"""Work whose duration grows with the number of series: in the event loop, or in a thread."""

import asyncio
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

MAX_LOOP_SERIES = 1000
"""The maximum number of series that are processed in the event loop; a thread processes more."""


async def in_thread_if_many(series: int, function: Callable[[], T]) -> T:
    """Call a function; in a thread if it processes more than ``MAX_LOOP_SERIES`` series."""
    return function() if series <= MAX_LOOP_SERIES else await asyncio.to_thread(function)
