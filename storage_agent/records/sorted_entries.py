"""Sorted entries, into which later changes are merged together.

An insertion into a list of a million entries takes half a millisecond. If each of many new entries
were inserted at once, the event loop would be blocked for minutes.
"""

import asyncio
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping
from heapq import merge
from itertools import islice
from typing import Any, Generic, TypeVar

E = TypeVar("E", bound=Any)

MAX_CHANGES = 100
"""The number of changes up to which each read takes them into account without merging them."""


class SortedEntries(Generic[E]):
    """A sorted list of entries, and the later changes of entries; the keys of all entries differ.

    ``entries``: sorted. ``key_of``: returns the key of an entry.
    """

    def __init__(self, entries: list[E], key_of: Callable[[E], str]) -> None:
        # The list is replaced, but never changed: threads read it, and copies share it.
        self.entries = entries
        self._key_of = key_of
        self._changes: dict[str, E | None] = {}

    def set(self, key: str, entry: E | None) -> None:
        """Set the entry of a key; None: the key has no entry."""
        self._changes[key] = entry

    @property
    def changes(self) -> Mapping[str, E | None]:
        """The changes since the last merge: key -> entry; None: the key has no entry any more."""
        return self._changes

    def copy(self) -> "SortedEntries[E]":
        """Return a copy, which a thread can read while this object changes."""
        copied = SortedEntries(self.entries, self._key_of)
        copied._changes = self._changes.copy()
        return copied

    async def merge(self) -> None:
        """Merge the changes in a thread if there are many; only one caller may do so at a time."""
        if len(self._changes) <= MAX_CHANGES:
            return
        merged = self._changes.copy()
        self.entries = await asyncio.to_thread(self._merge, self.entries, merged)
        # Changes that were made during the merge remain.
        self._changes = {
            key: entry
            for key, entry in self._changes.items()
            if key not in merged or merged[key] is not entry
        }

    def unchanged(self, entries: Iterable[E]) -> Iterable[E]:
        """Return those of ``entries`` whose keys have not changed since the last merge."""
        if not self._changes:
            return entries
        return (each for each in entries if self._key_of(each) not in self._changes)

    def begin_at(self, lower: E) -> Iterator[E]:
        """Return the sorted entries from ``lower`` on."""
        entries = islice(self.entries, bisect_left(self.entries, lower), None)
        changed = [each for each in self._changes.values() if each is not None and each >= lower]
        return merge(self.unchanged(entries), sorted(changed)) if self._changes else entries

    def _merge(self, entries: list[E], changes: Mapping[str, E | None]) -> list[E]:
        merged = [each for each in entries if self._key_of(each) not in changes]
        merged += sorted(each for each in changes.values() if each is not None)
        merged.sort()  # of two sorted parts: in one pass
        return merged
