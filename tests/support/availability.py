"""The times at which results become readable, and the pauses between them."""

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

from mistbow.client.agent import AgentClient
from mistbow.errors import MistbowError

_PERIOD_S = 0.05

Spans = Mapping[str, tuple[int, int | None]]
"""The generations of an insight: uid -> (since, until), the bounds (ms) of its ticks."""


@dataclass(frozen=True)
class Pause:
    """A pause in results before the tick ``tick`` (ms), ``seconds`` longer than the interval."""

    seconds: float
    tick: int


class AvailabilityMeter:
    """Reads a stream of results from a thread, and records when each tick is first readable.

    ``insight``: the uid of an insight with a result at each tick, or what the uids of several
    insights begin with. ``every_ms``: the interval of their ticks.
    """

    def __init__(self, url: str, stream: str, insight: str, every_ms: int) -> None:
        self._agent = AgentClient(url)
        self._stream = stream
        self._insight = insight
        self._every_ms = every_ms
        self._readable_at: dict[tuple[str, int], float] = {}
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._read, daemon=True)

    def __enter__(self) -> "AvailabilityMeter":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._thread.join(60)
        self._agent.close()

    def newest(self, uid: str) -> int:
        """Return the newest tick (ms) at which an insight has a readable result; 0: none."""
        return max((tick for each, tick in self._readable_at.copy() if each == uid), default=0)

    def pauses(self, since: int = 0, spans: Spans | None = None) -> list[Pause]:
        """Return the pauses before the ticks after ``since`` (ms), the longest first.

        Several ticks that become readable at once end one pause. A tick without a tick one interval
        before it, such as the first one, ends no pause. ``spans``: the results that users see,
        which are those of one insight; None: all results.
        """
        readable_at: dict[int, float] = {}
        for (uid, tick), at in self._readable_at.copy().items():
            if spans is None or _is_within(spans.get(uid), tick):
                readable_at[tick] = min(at, readable_at.get(tick, at))
        found = [
            Pause(readable_at[tick] - readable_at[before] - self._every_ms / 1000, tick)
            for before, tick in pairwise(sorted(readable_at))
            if tick > since and tick - before == self._every_ms
        ]
        return sorted(found, key=lambda each: -each.seconds)

    def _read(self) -> None:
        position = 0
        while not self._stopped.wait(_PERIOD_S):
            try:
                read = self._agent.read(self._stream, position, columns=["insight", "ts"])
            except MistbowError:
                continue
            position = read.position.next
            now = time.monotonic()
            rows = read.table.group_by(["insight", "ts"]).aggregate([])
            for uid, tick in zip(rows["insight"].to_pylist(), rows["ts"].to_pylist(), strict=True):
                if uid.startswith(self._insight):
                    self._readable_at.setdefault((uid, tick), now)


def _is_within(span: tuple[int, int | None] | None, tick: int) -> bool:
    if span is None:
        return False
    since, until = span
    return since < tick and (until is None or tick <= until)
