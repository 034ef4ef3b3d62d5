"""Server-sent events, encoded once for all subscribers, and the queue of one subscriber."""

import asyncio
from collections.abc import Mapping
from typing import Any

import msgspec

from mistbow.clock import Clock, system_clock

MAX_QUEUED_EVENTS = 1_000
MAX_QUEUED_BYTES = 16 * 2**20
"""The maximum size of the events that wait for one client; a slower client is disconnected."""

MAX_MISSED_BYTES = MAX_QUEUED_BYTES // 2
"""The maximum size of the results that a client has missed; views and new events need the rest."""


def encode_event(name: str, data: bytes, at: int) -> bytes:
    """Return an event in the form of server-sent events; ``at``: its cursor (ms)."""
    return b"event: %b\nid: %d\ndata: %b\n\n" % (name.encode(), at, data)


def encode_json(name: str, data: Any, at: int) -> bytes:
    """Return an event whose data is encoded as JSON."""
    return encode_event(name, msgspec.json.encode(data), at)


class EventQueue:
    """The events that wait for one client; ``close`` ends the client's stream.

    Until ``release``, new events are delayed: the events that a client has missed come first, so
    that the cursor of a later event does not skip them.
    """

    def __init__(self) -> None:
        self._events: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._bytes = 0
        self._delayed: list[bytes] | None = []
        self.is_closed = False

    def release(self) -> None:
        """Add the delayed events, and delay no further events."""
        delayed, self._delayed = self._delayed or [], None
        for event in delayed:
            self.put(event)

    def put(self, event: bytes) -> None:
        """Add a new event, or delay the event."""
        if self._delayed is None:
            self.put_first(event)
        elif len(self._delayed) >= MAX_QUEUED_EVENTS:
            self.close()
        else:
            self._delayed.append(event)

    def put_first(self, event: bytes) -> None:
        """Add an event before the delayed events.

        A queue that is too long is closed, and the client resumes by its cursor. An empty queue
        accepts an event of any size: its client is not slow, and would resume for ever.
        """
        if self.is_closed:
            return
        self._bytes += len(event)
        number = self._events.qsize()
        if number >= MAX_QUEUED_EVENTS or (number and self._bytes > MAX_QUEUED_BYTES):
            self.close()
            return
        self._events.put_nowait(event)

    def has_room(self, size: int) -> bool:
        """Return whether missed results of a size (bytes) fit into the queue."""
        return self._bytes + size <= MAX_MISSED_BYTES

    def close(self) -> None:
        """End the stream after the events that wait already."""
        if not self.is_closed:
            self.is_closed = True
            self._events.put_nowait(None)

    async def get(self, timeout_s: float) -> bytes | None:
        """Return all waiting events as bytes; empty: none in time; None: the queue is closed."""
        try:
            async with asyncio.timeout(timeout_s):
                first = await self._events.get()
        except TimeoutError:
            return b""
        if first is None:
            return None
        parts = [first]
        while not self._events.empty():
            following = self._events.get_nowait()
            if following is None:
                # The next call finds the end.
                self._events.put_nowait(None)
                break
            parts.append(following)
        self._bytes -= sum(map(len, parts))
        return b"".join(parts)


class Changes:
    """Finds the entries of a view that have changed since the last call: key -> JSON."""

    def __init__(self) -> None:
        self.entries: dict[str, bytes] = {}

    def update(self, entries: Mapping[str, bytes]) -> tuple[list[str], list[str]]:
        """Return (the keys of new and changed entries, the keys of removed entries)."""
        changed = [key for key, value in entries.items() if self.entries.get(key) != value]
        removed = [key for key in self.entries if key not in entries]
        self.entries = dict(entries)
        return changed, removed


class CursorClock:
    """The clock of cursors, which never goes back within one process."""

    def __init__(self, clock: Clock = system_clock) -> None:
        self._clock = clock
        self._latest = 0

    def __call__(self) -> int:
        self._latest = max(self._latest, self._clock())
        return self._latest
