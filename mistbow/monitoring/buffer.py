"""Where points wait for the storage agent."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from uuid import uuid4

from mistbow.client.agent_model import Point

_MOST_AT_ONCE = 5000


@dataclass(frozen=True, slots=True)
class Batch:
    """Points that are sent together; sent again, the same key tells that they are the same."""

    key: str
    points: tuple[Point, ...]


class Buffer:
    """Batches in the order they came, of ``limit`` points at most: the oldest make room."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._batches: deque[Batch] = deque()
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def add(self, points: Sequence[Point]) -> int:
        """Append points; return how many old ones had to go."""
        step = min(self._limit, _MOST_AT_ONCE)
        for start in range(0, len(points), step):
            batch = Batch(str(uuid4()), tuple(points[start : start + step]))
            self._batches.append(batch)
            self._size += len(batch.points)
        dropped = 0
        while self._size > self._limit:
            dropped += self._pop()
        return dropped

    def oldest(self) -> Batch | None:
        """Return the batch to send next; it stays until it is ``done``."""
        return self._batches[0] if self._batches else None

    def done(self, batch: Batch) -> None:
        """Forget a batch that was sent, unless it had to go meanwhile."""
        if self.oldest() is batch:
            self._pop()

    def _pop(self) -> int:
        count = len(self._batches.popleft().points)
        self._size -= count
        return count
