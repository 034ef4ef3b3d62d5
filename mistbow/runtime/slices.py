"""Divides long work on the event loop into short slices, between which other tasks run.

Tasks with work of the same kind take turns: in one iteration of the loop, at most one of them
begins a slice. Otherwise hundreds of such tasks would delay a short request by a slice of each.
"""

import asyncio
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterable
from typing import TypeVar
from weakref import WeakKeyDictionary

T = TypeVar("T")

LONG, SHORT, STORED = "long", "short", "stored"
"""The kinds of work: long reads; short requests, which must not wait for long reads; and the
application of a stored segment, for which all later appends wait.
"""

SLICE_S = 0.005
"""The time (s) after which long work lets other tasks run."""

_STEPS_BETWEEN_LOOKS = 16
"""The number of items between two looks at the clock, which takes as long as a short step."""

_turns: WeakKeyDictionary[asyncio.AbstractEventLoop, defaultdict[str, asyncio.Lock]] = (
    WeakKeyDictionary()
)


async def take_turn(kind: str = LONG) -> None:
    """Let other tasks run; return in an iteration of the loop in which no other caller returns.

    ``kind``: the kind of work; callers with work of other kinds may return in the same iteration.
    """
    turns = _turns.setdefault(asyncio.get_running_loop(), defaultdict(asyncio.Lock))
    async with turns[kind]:
        await asyncio.sleep(0)


class Slices:
    """Measures slices of work; ``pause`` ends a slice that has used up its time.

    ``clock``: returns seconds; None: the monotonic clock. ``slice_s``: the length of a slice (s).
    ``kind``: the kind of work, whose slices take turns.

    >>> async def example() -> list[int]:
    ...     return [each async for each in Slices().over([1, 2, 3])]
    >>> asyncio.run(example())
    [1, 2, 3]
    """

    def __init__(
        self,
        clock: Callable[[], float] | None = None,
        slice_s: float = SLICE_S,
        *,
        kind: str = LONG,
    ) -> None:
        self._clock = clock or time.perf_counter
        self._slice_s = slice_s
        self._kind = kind
        self._end = self._clock() + slice_s

    async def pause(self) -> None:
        """Yield to other tasks if the present slice has used up its time."""
        if self._clock() >= self._end:
            await take_turn(self._kind)
            self._end = self._clock() + self._slice_s

    async def over(self, items: Iterable[T], steps: int = _STEPS_BETWEEN_LOOKS) -> AsyncIterator[T]:
        """Yield each item; after every ``steps`` items, call ``pause``."""
        number = 0
        for item in items:
            yield item
            number += 1
            if number == steps:
                number = 0
                await self.pause()
