"""Work whose duration grows with the number of items: in the event loop, or in a thread."""

import asyncio
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

MAX_LOOP_SERIES = 1000
"""The maximum number of series that are processed in the event loop; a thread processes more."""


async def in_thread_if_many(items: int, function: Callable[[], T]) -> T:
    """Call a function; in a thread if it processes many series or points."""
    return function() if items <= MAX_LOOP_SERIES else await asyncio.to_thread(function)
