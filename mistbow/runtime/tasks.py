"""Cancels tasks of asyncio, and reports background tasks that end early."""

import asyncio
from collections.abc import Coroutine, Iterable
from typing import Any

from mistbow.telemetry import get_logger

log = get_logger(__name__)


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


def log_early_end(task: asyncio.Task[Any]) -> bool:
    """Log the end of a task that should run until it is cancelled; return whether it ended early.

    A task also ends as cancelled if something for which it waits was cancelled: an early end. An
    error after a request to cancel the task is logged, and is no early end.
    """
    error = None if task.cancelled() else task.exception()
    if task.cancelling():
        if error is not None:
            log.error("background_task_close_failed", task=task.get_name(), exc_info=error)
        return False
    log.critical("background_task_ended", task=task.get_name(), exc_info=error)
    return True


class BackgroundTasks:
    """The tasks that a service runs in the background until ``close``.

    The end of a task before ``close`` is a critical log event, and one of ``problems``, which the
    service shows as warnings in ``/readyz``. ``ended``: the names of these tasks.
    """

    def __init__(self) -> None:
        self.ended: list[str] = []
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def problems(self) -> list[str]:
        """The problems of the tasks that ended early, with their remedy."""
        return list(map(end_of_task, self.ended))

    def spawn(self, name: str, work: Coroutine[Any, Any, None]) -> None:
        """Start a task; ``name``: names its work for operators."""
        task = asyncio.create_task(work, name=name)
        task.add_done_callback(self._note_end)
        self._tasks.append(task)

    async def close(self) -> None:
        """Cancel all tasks, and wait until they have ended."""
        await cancel_and_wait(self._tasks)

    def _note_end(self, task: asyncio.Task[None]) -> None:
        if log_early_end(task):
            self.ended.append(task.get_name())


def end_of_task(name: str) -> str:
    """Return the problem of a background task that ended early, with its remedy."""
    return (
        f"the background task '{name}' has ended: restart this service, and report the log event "
        "background_task_ended as a defect"
    )
