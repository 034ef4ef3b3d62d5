"""A server that serves until its service has left the fog, and then stops."""

import asyncio
import signal
from collections.abc import Callable, Coroutine
from types import FrameType
from typing import Any

import uvicorn

Leave = Callable[[], Coroutine[Any, Any, None]]
"""A function that returns when the service has left the fog, so that its server can stop."""


class GracefulServer(uvicorn.Server):
    """A server that calls ``leave`` at SIGTERM, and stops when ``leave`` returns.

    A second SIGTERM, or SIGINT, stops it at once.
    """

    def __init__(self, config: uvicorn.Config, leave: Leave) -> None:
        super().__init__(config)
        self._leave = leave
        self._is_terminated = False
        self._leaving: asyncio.Task[None] | None = None

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Note a signal; ``on_tick`` acts on it."""
        if sig == signal.SIGTERM and self.started and not self._is_terminated:
            self._is_terminated = True
        else:
            super().handle_exit(sig, frame)

    async def on_tick(self, counter: int) -> bool:
        """Begin to leave after SIGTERM; return whether the server stops."""
        if self._is_terminated and self._leaving is None:
            self._leaving = asyncio.create_task(self._leave())
        if self._leaving is not None and self._leaving.done() and not self.should_exit:
            super().handle_exit(signal.SIGTERM, None)
        return await super().on_tick(counter)
