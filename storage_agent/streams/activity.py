"""Signals between the readers and the writer of a stream, which all run in one process."""

import asyncio

_WATCHED_S = 60.0


class Activity:
    """Wakes the readers of a stream when the stream changes, and its writer when work arrives.

    A stream is *watched* for a minute after a reader has called ``watch``. The writer moves the
    frontier of an idle stream only while the stream is watched.
    """

    def __init__(self) -> None:
        self.work = asyncio.Event()
        self._changed = asyncio.Event()
        self._watched_until = 0.0

    @property
    def is_watched(self) -> bool:
        """Whether a reader has called ``watch`` within the last minute."""
        return asyncio.get_running_loop().time() < self._watched_until

    def watch(self) -> asyncio.Event:
        """Mark the stream as watched; return the event that is set when the stream next changes."""
        if not self.is_watched:
            self.work.set()
        self._watched_until = asyncio.get_running_loop().time() + _WATCHED_S
        return self._changed

    def announce(self) -> None:
        """Wake all readers that wait for a change."""
        self._changed.set()
        self._changed = asyncio.Event()
