"""Reads a value once for all callers that request it at the same time."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class SharedReads(Generic[T]):
    """The reads in flight; a read goes on if its callers are cancelled."""

    def __init__(self) -> None:
        self._tasks: dict[str, asyncio.Task[T]] = {}

    def __contains__(self, key: str) -> bool:
        """Return whether a read of ``key`` is in flight."""
        return key in self._tasks

    async def read(self, key: str, begin: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Return the value of ``key``: of the read in flight, or of a read that ``begin`` makes."""
        task = self._tasks.get(key)
        if task is None:
            task = asyncio.create_task(begin())
            self._tasks[key] = task
            task.add_done_callback(lambda ended: self._remove(key, ended))
        return await asyncio.shield(task)

    def _remove(self, key: str, ended: asyncio.Task[T]) -> None:
        del self._tasks[key]
        if not ended.cancelled():
            ended.exception()  # asyncio would report an error that no caller awaits any more
