"""The buffer of points that wait for the storage agent."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from uuid import uuid4

from mistbow.client import Point

_MAX_BATCH_POINTS = 5000


@dataclass(frozen=True, slots=True)
class Batch:
    """Points that are sent together; ``key``: the idempotency key of all attempts to send them."""

    key: str
    points: tuple[Point, ...]


class Buffer:
    """A queue of batches with at most ``limit`` points; a full buffer drops the oldest batches."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._batches: deque[Batch] = deque()
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def add(self, points: Sequence[Point]) -> int:
        """Append points; return the number of points that were dropped, which are the oldest."""
        step = min(self._limit, _MAX_BATCH_POINTS)
        for start in range(0, len(points), step):
            batch = Batch(str(uuid4()), tuple(points[start : start + step]))
            self._batches.append(batch)
            self._size += len(batch.points)
        return self._drop()

    def restore(self, batches: Sequence[Batch]) -> int:
        """Append batches of an earlier process, with their keys; return as ``add`` does."""
        self._batches.extend(batches)
        self._size += sum(len(batch.points) for batch in batches)
        return self._drop()

    def batches(self) -> list[Batch]:
        """Return all batches, from the oldest on."""
        return list(self._batches)

    def oldest(self) -> Batch | None:
        """Return the oldest batch without removing it; None: the buffer is empty."""
        return self._batches[0] if self._batches else None

    def remove(self, batch: Batch) -> None:
        """Remove ``batch`` if it is the oldest batch; do nothing if ``batch`` was dropped."""
        if self.oldest() is batch:
            self._pop()

    def split(self, batch: Batch) -> None:
        """Replace ``batch``, if it is the oldest batch, by two batches of half as many points."""
        if self.oldest() is batch:
            middle = len(batch.points) // 2
            self._batches.popleft()
            for points in (batch.points[middle:], batch.points[:middle]):
                self._batches.appendleft(Batch(str(uuid4()), points))

    def _drop(self) -> int:
        dropped = 0
        while self._size > self._limit:
            dropped += self._pop()
        return dropped

    def _pop(self) -> int:
        count = len(self._batches.popleft().points)
        self._size -= count
        return count
