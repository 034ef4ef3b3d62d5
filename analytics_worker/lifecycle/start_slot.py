"""The start slot of a worker, which lets the worker's queries start one after the other."""

import threading
import time
from collections.abc import Callable
from weakref import WeakKeyDictionary

_TIMEOUT_S = 10.0
_MEMORY_PATIENCE_S = 30.0


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
        self._lock = threading.Lock()
        self._owner: object | None = None
        self._expires_at = 0.0

    def acquire(self, owner: object, *, for_handover: bool = False) -> bool:
        """Take the slot for 10 s unless another owner has the slot.

        ``for_handover``: whether another query of ``owner`` runs, so that the slot is not taken
        without memory for both. Return whether ``owner`` now has the slot.
        """
        if for_handover and not self._has_memory():
            with self._lock:
                self._waiting_since.setdefault(owner, time.monotonic())
            return False
        with self._lock:
            self._waiting_since.pop(owner, None)
            return self._take(owner)

    def acquire_without_memory(self, owner: object) -> bool:
        """Take the slot for a handover that has waited for memory for too long.

        ``owner`` must then end its running query first. So only one query at a time ends for this
        reason. Return whether ``owner`` now has the slot.
        """
        with self._lock:
            since = self._waiting_since.get(owner)
            if since is None or time.monotonic() < since + self._patience_s:
                return False
            return self._take(owner)

    def end_wait(self, owner: object) -> None:
        """Forget since when ``owner`` waits for memory, because it needs no handover any more."""
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
        self._waiting_since.pop(owner, None)
        return True
