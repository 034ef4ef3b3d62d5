"""The threads for long work: few, because Python runs one of them at a time.

The event loop competes with each of these threads. With more threads, all together do no more work,
but short requests wait longer.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import TypeVar

import anyio.to_thread

T = TypeVar("T")

WORK_THREADS = 2
"""The number of threads for long reads."""

MAX_LOOP_ITEMS = 1000
"""The maximum number of items that the event loop processes at once; a thread processes more."""

_INGEST = ThreadPoolExecutor(1, thread_name_prefix="ingest")
"""The thread that decodes large bodies, which must not wait for long reads."""

_UPKEEP = ThreadPoolExecutor(1, thread_name_prefix="upkeep")
"""The thread for short work with files, which probes of the agent and its spool wait for."""


def limit_work_threads() -> None:
    """Let the running event loop and its streamed answers use few threads."""
    pool = ThreadPoolExecutor(WORK_THREADS, thread_name_prefix="work")
    asyncio.get_running_loop().set_default_executor(pool)
    anyio.to_thread.current_default_thread_limiter().total_tokens = WORK_THREADS


async def in_thread_if_many(items: int, function: Callable[[], T]) -> T:
    """Call a function; in a thread if it processes many items (series, points or records)."""
    return function() if items <= MAX_LOOP_ITEMS else await asyncio.to_thread(function)


async def in_own_thread_if_many(items: int, function: Callable[[], T]) -> T:
    """Do the same as ``in_thread_if_many``, in a thread that long reads do not use."""
    return function() if items <= MAX_LOOP_ITEMS else await ingest_beside(function)


async def ingest_beside(work: Callable[[], T]) -> T:
    """Call a function that decodes a body in a thread, which long reads do not use."""
    return await _run(_INGEST, work)


async def upkeep_beside(work: Callable[[], T]) -> T:
    """Call a short function that reads or writes files, in a thread that long reads do not use."""
    return await _run(_UPKEEP, work)


async def _run(pool: ThreadPoolExecutor, work: Callable[[], T]) -> T:
    context = copy_context()
    return await asyncio.get_running_loop().run_in_executor(pool, context.run, work)
