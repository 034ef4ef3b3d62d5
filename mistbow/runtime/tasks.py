"""Cancels tasks of asyncio."""

import asyncio
from collections.abc import Iterable
from typing import Any


async def cancel_and_wait(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Cancel tasks and wait until all tasks have ended, whatever their results and errors.

    Raises ``CancelledError`` if the caller itself is cancelled during the wait. Code that awaits a
    task and suppresses ``CancelledError`` would also suppress the caller's own cancellation.
    """
    cancelled = list(tasks)
    for task in cancelled:
        task.cancel()
    if cancelled:
        await asyncio.wait(cancelled)
