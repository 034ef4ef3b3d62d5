"""Work whose duration grows with the number of items: in the event loop, or in a thread."""

import asyncio
from collections.abc import Callable
from typing import TypeVar

from storage_agent.work_threads import ingest_beside

T = TypeVar("T")

MAX_LOOP_ITEMS = 1000
"""The maximum number of items that the event loop processes at once; a thread processes more."""


async def in_thread_if_many(items: int, function: Callable[[], T]) -> T:
    """Call a function; in a thread if it processes many items (series, points or records)."""
    return function() if items <= MAX_LOOP_ITEMS else await asyncio.to_thread(function)


async def in_own_thread_if_many(items: int, function: Callable[[], T]) -> T:
    """Do the same as ``in_thread_if_many``, in a thread that long reads do not use."""
    return function() if items <= MAX_LOOP_ITEMS else await ingest_beside(function)
