"""Remembers the idempotency keys of recent appends, to recognize repeated appends.

``Caller.scoped_key`` makes the keys of clients unique; keys of agents begin with
``INTERNAL_PREFIX``.
"""

import time
from collections import OrderedDict
from collections.abc import Mapping

from storage_agent.request_key import BODY_MARK, RequestKey
from storage_agent.streams.segments import AppendResult

MAX_KEYS = 100_000
MAX_AGE_S = 600.0
INTERNAL_PREFIX = "\n"
"""The prefix of keys that agents create; a client cannot send this prefix in a header."""

_MAX_INTERNAL_KEYS = 10_000
_MAX_STEP_S = 5.0
"""The maximum time (s) that a pause between two appends adds to the age of a key."""


class IdempotencyKeys:
    """The idempotency keys of recent appends, with the result of each append.

    Up to ``MAX_KEYS`` keys of clients are stored, each for ``MAX_AGE_S``. The age of a key is
    measured from the time when this process recorded the key, so repeats are recognized after a
    restart of any duration. A pause without appends adds at most 5 s to the age of each key: while
    Ignite is unavailable, no append succeeds, and clients repeat their appends after the pause.
    Keys of agents have a separate limit, because agents need them only for a moment. Keys that were
    derived from bodies are forgotten when rows are deleted, so that the same body can store the
    rows again.
    """

    def __init__(self) -> None:
        self._of_clients = _KeyTable(MAX_KEYS)
        self._of_bodies = _KeyTable(MAX_KEYS)
        self._internal = _KeyTable(_MAX_INTERNAL_KEYS)
        self._tables = (self._of_clients, self._of_bodies, self._internal)
        self._deleted_before = 0
        self._now = 0.0
        self._recorded_at = time.monotonic()

    def __len__(self) -> int:
        return sum(len(table.results) for table in self._tables)

    def get(self, key: RequestKey | None) -> AppendResult | None:
        """Return the result of the recent append with a key; None: no recent append has the key.

        Raises ``ReusedKeyError`` if that append had another body.
        """
        found = self._table(key.text).results.get(key.text) if key is not None else None
        if key is None or found is None:
            return None
        key.check(found[0].digest)
        return found[0]

    def record(self, keys: Mapping[str, AppendResult]) -> None:
        """Add keys (key -> result of the append) as the newest keys, and remove expired keys."""
        now = time.monotonic()
        self._now += min(now - self._recorded_at, _MAX_STEP_S)
        self._recorded_at = now
        for key, result in keys.items():
            if not self.is_forgotten(key, result):
                self._table(key).results[key] = (result, self._now)
        for table in self._tables:
            table.expire(self._now - MAX_AGE_S)

    def forget_bodies(self, deleted_before: int) -> None:
        """Forget the keys that were derived from bodies, if more rows are deleted than before.

        ``deleted_before``: the position before which rows are deleted.
        """
        if deleted_before > self._deleted_before:
            self._deleted_before = deleted_before
            self._of_bodies.results.clear()

    def is_forgotten(self, key: str, result: AppendResult) -> bool:
        """Return whether a stored key is forgotten, because rows of its append may be deleted."""
        return result.first < self._deleted_before and self._table(key) is self._of_bodies

    def _table(self, key: str) -> "_KeyTable":
        if key.startswith(INTERNAL_PREFIX):
            return self._internal
        return self._of_bodies if BODY_MARK in key else self._of_clients


class _KeyTable:
    def __init__(self, max_keys: int) -> None:
        self.results: OrderedDict[str, tuple[AppendResult, float]] = OrderedDict()
        self._max_keys = max_keys

    def expire(self, before: float) -> None:
        """Remove the keys recorded before a time, and the oldest keys above the maximum."""
        while self.results:
            _, recorded = next(iter(self.results.values()))
            if len(self.results) <= self._max_keys and recorded > before:
                return
            self.results.popitem(last=False)
