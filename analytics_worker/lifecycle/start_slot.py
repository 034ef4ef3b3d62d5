"""The start slot of a worker, which lets the worker's queries start one after the other."""

import threading
import time

_TIMEOUT_S = 10.0


class StartSlot:
    """A lock with expiry, which lets queries start in turn, since a start runs many processes."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._owner: object | None = None
        self._expires_at = 0.0

    def acquire(self, owner: object) -> bool:
        """Take the slot for 10 s unless another owner has the slot.

        Return whether ``owner`` now has the slot.
        """
        with self._lock:
            now = time.monotonic()
            if self._owner not in (None, owner) and now < self._expires_at:
                return False
            self._owner, self._expires_at = owner, now + _TIMEOUT_S
            return True

    def release(self, owner: object) -> None:
        """Release the slot if ``owner`` has the slot."""
        with self._lock:
            if self._owner is owner:
                self._owner = None
