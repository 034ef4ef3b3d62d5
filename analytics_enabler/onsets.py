"""The times at which present conditions began."""

from collections.abc import Hashable, Iterable
from typing import Generic, TypeVar

from mistbow.clock import Clock

K = TypeVar("K", bound=Hashable)


class Onsets(Generic[K]):
    """The present conditions, each with the time (ms) at which it was first observed.

    >>> times = iter([10, 20])
    >>> onsets = Onsets[str](lambda: next(times))
    >>> onsets.update(["a"])
    >>> onsets.update(["a", "b"])
    >>> onsets.get("a"), onsets.get("b"), onsets.get("c")
    (10, 20, None)
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._times: dict[K, int] = {}

    def update(self, present: Iterable[K]) -> None:
        """Replace the conditions; those that remain have the same times as before."""
        now = self._clock()
        self._times = {condition: self._times.get(condition, now) for condition in present}

    def add(self, condition: K) -> int:
        """Return the time (ms) at which a condition began; a new condition begins now."""
        return self._times.setdefault(condition, self._clock())

    def get(self, condition: K) -> int | None:
        """Return the time (ms) at which a condition began; None: the condition is false."""
        return self._times.get(condition)

    def until(self, end: int) -> frozenset[K]:
        """Return the conditions that began at a time (ms) or earlier."""
        return frozenset(condition for condition, since in self._times.items() if since <= end)
