"""The idempotency keys of recent appends, so that a repeat is told apart from a new one."""

import time
from collections import OrderedDict
from collections.abc import Mapping

from storage_agent.streams.segments import Appended

MOST = 100_000
AGE_S = 600.0


class RecentKeys:
    """What each key's append did; forgotten after ``AGE_S``, and the oldest over ``MOST``.

    A key's age counts from when this process learned of it, so that a restart, however late,
    still tells a repeat.
    """

    def __init__(self) -> None:
        self._known: OrderedDict[str, tuple[Appended, float]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._known)

    def get(self, key: str | None) -> Appended | None:
        """Return what the append of a key did, if that is known."""
        found = self._known.get(key) if key is not None else None
        return found[0] if found else None

    def learn(self, keys: Mapping[str, Appended]) -> None:
        """Add keys, newer than all before."""
        now = time.monotonic()
        for key, appended in keys.items():
            self._known[key] = (appended, now)
        while self._known:
            _, learned = next(iter(self._known.values()))
            if len(self._known) <= MOST and now - learned < AGE_S:
                return
            self._known.popitem(last=False)
