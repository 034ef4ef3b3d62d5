"""The pace of a subscription: when it sends a part of a stream, and how long it waits."""

import asyncio
import contextlib
import math
import time
from collections.abc import Callable

from mistbow.streams.wire import Position
from storage_agent.streams.writer import TICK_S

HEARTBEAT_S = 2.0
"""The maximum time (s) between two chunks that a subscriber receives, even if nothing changes."""


class Pace:
    """Decides when a subscription from the position ``start`` to ``end`` sends a part.

    Rows and the last part are sent at once. A part without rows is sent if its position has moved,
    at most every ``TICK_S``, and otherwise every ``HEARTBEAT_S``. ``end`` None: there is no last
    part. ``clock``: returns the time in s.
    """

    def __init__(
        self, start: int, end: int | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._end = end
        self._clock = clock
        self._sent_at = -math.inf
        self.sent = Position(start, -1)
        """The position of the part that was sent last."""

    @property
    def is_ended(self) -> bool:
        """Whether the last part was sent."""
        return self._is_last(self.sent)

    def sends(self, rows: int, position: Position) -> bool:
        """Return whether to send a part with a number of rows, which then counts as sent."""
        idle = self._clock() - self._sent_at
        moved = position != self.sent and idle >= TICK_S
        if not (rows or moved or self._is_last(position) or idle >= HEARTBEAT_S):
            return False
        self.sent, self._sent_at = position, self._clock()
        return True

    async def wait(self, changed: asyncio.Event, position: Position) -> None:
        """Wait until the stream changes or a part without rows is due.

        ``changed``: is set when the stream changes. ``position``: the position at its head.
        """
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(HEARTBEAT_S if position == self.sent else TICK_S):
                await changed.wait()

    def _is_last(self, position: Position) -> bool:
        return self._end is not None and position.next >= self._end
