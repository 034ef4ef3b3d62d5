"""Points that arrive as in practice: out of order, some of them late."""

import random
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from mistbow.client.agent_model import Point


@dataclass(frozen=True)
class Traffic:
    """A sequence of batches of points; equal seeds give equal batches, except for their times.

    ``disorder_ms``: the maximum age of points when they are sent, except that every
    ``late_every``-th point is ``late_ms`` old.
    """

    metrics: Sequence[str] = ("cpu", "mem")
    entities: Sequence[str] = ("a", "b", "c")
    rate: int = 50
    disorder_ms: int = 600
    late_every: int = 97
    late_ms: int = 4000
    seed: int = 1

    def batches(self, seconds: float, pause: float = 0.1) -> Iterator[list[Point]]:
        """Yield batches in real time for ``seconds``, at ``rate`` points per second.

        ``pause``: the time (s) between batches. A batch that was delayed is not made up for.
        """
        chance = random.Random(self.seed)  # noqa: S311 - the same each time, by design
        end = time.monotonic() + seconds
        sent = 0
        due = time.monotonic()
        while time.monotonic() < end:
            now = time.time_ns() // 1_000_000
            batch = []
            for _ in range(max(1, round(self.rate * pause))):
                sent += 1
                late = sent % self.late_every == 0
                age = self.late_ms if late else chance.randrange(self.disorder_ms)
                batch.append(self._point(chance, now - age))
            yield batch
            due = max(due + pause, time.monotonic())
            time.sleep(max(due - time.monotonic(), 0))

    def _point(self, chance: random.Random, ts: int) -> Point:
        entity = chance.choice(self.entities)
        return Point(
            metric=chance.choice(self.metrics),
            entity=entity,
            ts=ts,
            value=chance.uniform(-50, 100),
            group="odd" if self.entities.index(entity) % 2 else "even",
        )
