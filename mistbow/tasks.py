"""Tasks in the background, and how they end."""

import asyncio
from collections.abc import Iterable
from typing import Any


async def end(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Cancel tasks, and wait until all have ended, in whatever way.

    Who is cancelled meanwhile hears of it: to await a task and to suppress its ``CancelledError``
    would swallow one's own.
    """
    ending = list(tasks)
    for task in ending:
        task.cancel()
    if ending:
        await asyncio.wait(ending)
