"""The idempotency keys of recent appends, so that a repeat is told apart from a new one.

Those that callers give begin with the caller (``Caller.own``).
"""

import time
from collections import OrderedDict
from collections.abc import Mapping

from storage_agent.streams.segments import Appended

MOST = 100_000
AGE_S = 600.0
OWN = "\n"
"""What a key begins with that an agent made itself, which no header of a request can hold."""

_MOST_OWN = 10_000
_STEP_S = 5.0
"""At most so much of the time between two appends counts."""


class RecentKeys:
    """What each key's append did; forgotten after ``AGE_S``, and the oldest over ``MOST``.

    A key's age counts from when this process learned of it, so that a restart, however late,
    still tells a repeat; and only while there are appends: whoever repeats may have had to wait
    for as long as there were none. Keys of agents' own making are in doubt for a moment only, and
    take no room of others.
    """

    def __init__(self) -> None:
        self._given = _Room(MOST)
        self._own = _Room(_MOST_OWN)
        self._now = 0.0
        self._looked = time.monotonic()

    def __len__(self) -> int:
        return len(self._given.known) + len(self._own.known)

    def __contains__(self, key: str) -> bool:
        return key in self._room(key).known

    def get(self, key: str | None) -> Appended | None:
        """Return what the append of a key did, if that is known."""
        found = self._room(key).known.get(key) if key is not None else None
        return found[0] if found else None

    def learn(self, keys: Mapping[str, Appended]) -> None:
        """Add keys, newer than all before."""
        now = time.monotonic()
        self._now += min(now - self._looked, _STEP_S)
        self._looked = now
        for key, appended in keys.items():
            self._room(key).known[key] = (appended, self._now)
        for room in (self._given, self._own):
            room.forget(self._now - AGE_S)

    def _room(self, key: str) -> "_Room":
        return self._own if key.startswith(OWN) else self._given


class _Room:
    def __init__(self, most: int) -> None:
        self.known: OrderedDict[str, tuple[Appended, float]] = OrderedDict()
        self._most = most

    def forget(self, before: float) -> None:
        """Forget what was learned before a time, and the oldest of what is too much."""
        while self.known:
            _, learned = next(iter(self.known.values()))
            if len(self.known) <= self._most and learned > before:
                return
            self.known.popitem(last=False)
