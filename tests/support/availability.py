"""The times at which results become readable, and the pauses between them."""

import threading
import time
from dataclasses import dataclass
from itertools import pairwise

import pyarrow.compute as pc

from mistbow.client.agent import AgentClient
from mistbow.errors import MistbowError

_PERIOD_S = 0.05


@dataclass(frozen=True)
class Pause:
    """A pause in results before the tick ``tick`` (ms), ``seconds`` longer than the interval."""

    seconds: float
    tick: int


class AvailabilityMeter:
    """Reads a stream of results from a thread, and records when each tick is first readable.

    ``insight``: the uid of an insight with a result at each tick. ``every_ms``: the interval of its
    ticks.
    """

    def __init__(self, url: str, stream: str, insight: str, every_ms: int) -> None:
        self._agent = AgentClient(url)
        self._stream = stream
        self._insight = insight
        self._every_ms = every_ms
        self._readable_at: dict[int, float] = {}
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._read, daemon=True)

    def __enter__(self) -> "AvailabilityMeter":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._thread.join(60)
        self._agent.close()

    @property
    def ticks(self) -> int:
        """The number of ticks with a readable result."""
        return len(self._readable_at)

    @property
    def newest(self) -> int:
        """The newest tick (ms) with a readable result; 0: none."""
        return max(self._readable_at.copy(), default=0)

    def pauses(self, since: int = 0) -> list[Pause]:
        """Return the pauses before the ticks after ``since`` (ms), the longest first.

        Several ticks that become readable at once end one pause.
        """
        ticks = sorted(self._readable_at.copy())
        found = [
            Pause(self._readable_at[tick] - self._readable_at[before] - self._every_ms / 1000, tick)
            for before, tick in pairwise(ticks)
            if tick > since
        ]
        return sorted(found, key=lambda each: -each.seconds)

    def _read(self) -> None:
        position = 0
        while not self._stopped.wait(_PERIOD_S):
            try:
                read = self._agent.read(
                    self._stream, position, match={"insight": [self._insight]}, columns=["ts"]
                )
            except MistbowError:
                continue
            position = read.position.next
            now = time.monotonic()
            for tick in pc.unique(read.table["ts"]).to_pylist():
                self._readable_at.setdefault(tick, now)
