"""Measures the delays of results as the results arrive in their stream."""

import threading
import time
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mistbow.client.agent import AgentClient
from mistbow.clock import system_clock
from mistbow.errors import MistbowError

LATENESS_MS = 1000
"""The time (ms) from the end of a window until the result of the window is due."""


class ResultDelays:
    """Follows a stream of results in a thread, and measures the delays of first revisions.

    ``now`` returns the current time (ms) on the clock that the ticks of the results use.
    """

    def __init__(
        self, agent: AgentClient, stream: str, now: Callable[[], int] = system_clock
    ) -> None:
        self._agent = agent
        self._stream = stream
        self._now = now
        self._found: list[tuple[float, npt.NDArray[np.int64]]] = []
        threading.Thread(target=self._run, name=f"follow {stream}", daemon=True).start()

    def _run(self) -> None:
        position = 0
        while True:
            try:
                for chunk in self._agent.follow(self._stream, position, columns=["ts", "revision"]):
                    position = chunk.position.next
                    if chunk.rows.num_rows:
                        self._take(chunk.rows)
            except MistbowError:
                time.sleep(0.5)

    def _take(self, rows: pa.RecordBatch) -> None:
        first = rows.column("revision").to_numpy() == 0
        delays = self._now() - rows.column("ts").to_numpy()[first] - LATENESS_MS
        self._found.append((time.monotonic(), delays))

    def since(self, then: float) -> npt.NDArray[np.int64]:
        """Return the delays (ms) of results that were read since ``then`` (s on the monotonic
        clock).
        """
        parts = [delays for at, delays in list(self._found) if at >= then]
        return np.concatenate(parts) if parts else np.zeros(0, np.int64)
