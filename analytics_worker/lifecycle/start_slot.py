"""The start slot of a worker, which lets the worker's queries start one after the other."""

import threading
import time
from collections.abc import Callable
from weakref import WeakKeyDictionary

from analytics.plan.fragments import Fragment, Partial

_TIMEOUT_S = 10.0
_POLLED_S = 1.0
"""The time after its last call of ``request`` or ``acquire`` in which an owner waits."""

_START_S = 15.0
"""The time (s) from the slot to the first results of a query on a busy machine."""

_MAX_CORRECTION_WAIT_S = 30.0
"""The maximum time (s) for which starts of queries delay the next correction of a fragment."""

_Rank = tuple[int, int]
"""The urgency of a start; the waiting start with the greatest rank gets the slot next."""

_MEMORY_PATIENCE_S = 30.0


def _rank_of(fragment: Fragment, *, is_handover: bool) -> _Rank:
    """Return the rank of a fragment's start: fragments whose results have stopped come first.

    Partial fragments come next: without one, results continue but lack its site. Handovers come
    last, because results continue completely.
    """
    urgency = 0 if is_handover else 1 if isinstance(fragment, Partial) else 2
    return urgency, fragment.salience


class StartSlot:
    """A lock with expiry, which lets queries start in turn, since a start runs many processes.

    ``has_memory``: returns whether the worker has memory for a second query of a fragment.
    ``patience_s``: how long a handover waits for this memory.
    """

    def __init__(
        self, has_memory: Callable[[], bool], patience_s: float = _MEMORY_PATIENCE_S
    ) -> None:
        self._has_memory = has_memory
        self._patience_s = patience_s
        self._waiting_since: WeakKeyDictionary[object, float] = WeakKeyDictionary()
        self._waiting: WeakKeyDictionary[object, tuple[_Rank, float]] = WeakKeyDictionary()
        """Owner -> its rank, and the time of its last request, for the owners that wait."""
        self._lock = threading.Lock()
        self._owner: object | None = None
        self._expires_at = 0.0
        self._started_at: WeakKeyDictionary[object, float] = WeakKeyDictionary()
        """Owner -> when its query has started, while the query has no results yet."""
        self._corrected_at: WeakKeyDictionary[object, float] = WeakKeyDictionary()

    def may_correct(self, owner: object) -> bool:
        """Return whether ``owner`` may compute corrections now, since no query starts.

        First results are more urgent than corrections, which wait for a limited time.
        """
        now = time.monotonic()
        with self._lock:
            is_starting = any(now < at + _START_S for at in self._started_at.values())
            waits_since = self._corrected_at.setdefault(owner, now)
            if is_starting and now < waits_since + _MAX_CORRECTION_WAIT_S:
                return False
            self._corrected_at[owner] = now
            return True

    def end_start(self, owner: object) -> None:
        """Record that the query of ``owner`` has its first results, or has failed."""
        with self._lock:
            self._started_at.pop(owner, None)

    def request(self, owner: object, fragment: Fragment) -> None:
        """Let ``owner`` wait for the slot with the rank of its first query, before ``acquire``.

        So a start of less rank that is prepared sooner does not take the slot first.
        """
        with self._lock:
            self._waiting[owner] = _rank_of(fragment, is_handover=False), time.monotonic()

    def withdraw(self, owner: object) -> None:
        """Let ``owner`` no longer wait for the slot, since its query cannot start now."""
        with self._lock:
            self._waiting.pop(owner, None)

    def acquire(self, owner: object, fragment: Fragment, *, for_handover: bool = False) -> bool:
        """Take the slot for 10 s unless another owner has the slot, or one of greater rank waits.

        ``for_handover``: whether another query of ``owner`` runs, so that the slot is not taken
        without memory for both. Return whether ``owner`` now has the slot.
        """
        if for_handover and not self._has_memory():
            with self._lock:
                self._waiting_since.setdefault(owner, time.monotonic())
            return False
        self.end_wait(owner)
        with self._lock:
            now, rank = time.monotonic(), _rank_of(fragment, is_handover=for_handover)
            self._waiting[owner] = rank, now
            waiting = [each for each, at in self._waiting.values() if now - at < _POLLED_S]
            if (self._owner is not owner and max(waiting) > rank) or not self._take(owner):
                return False
            del self._waiting[owner]
            return True

    def acquire_without_memory(self, owner: object) -> bool:
        """Take the slot for a handover that has waited for memory for too long.

        ``owner`` must then end its running query first. So only one query at a time ends for this
        reason. Return whether ``owner`` now has the slot.
        """
        with self._lock:
            since = self._waiting_since.get(owner)
            is_patient = since is None or time.monotonic() < since + self._patience_s
            if is_patient or not self._take(owner):
                return False
            del self._waiting_since[owner]
            return True

    def end_wait(self, owner: object) -> None:
        """Record that ``owner`` no longer waits for memory."""
        with self._lock:
            self._waiting_since.pop(owner, None)

    def release(self, owner: object) -> None:
        """Release the slot if ``owner`` has the slot."""
        with self._lock:
            if self._owner is owner:
                self._owner = None

    def _take(self, owner: object) -> bool:
        now = time.monotonic()
        if self._owner not in (None, owner) and now < self._expires_at:
            return False
        self._owner, self._expires_at = owner, now + _TIMEOUT_S
        self._started_at[owner] = now
        return True
