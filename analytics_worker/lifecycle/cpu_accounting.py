"""The CPU time of a worker's fragments, which adds up to the CPU time of the worker's processes.

A query measures its own CPU time. The remaining CPU time of the worker's processes (Spark's
dispatchers, compilation, garbage collection, corrections, the worker itself) belongs to no query.
Without fragments, it is the cost of an idle worker. The excess over this cost is divided among the
fragments in proportion to their own CPU time.
"""

import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress

import psutil

from mistbow.runtime.periodic import PeriodicThread, Schedule

_PERIOD_S = 5.0
_SMOOTHING_S = 60.0
"""The time constant (s) of the smoothing: measurements of queries and processes do not coincide."""

IDLE_CORES = 0.05
"""The cores that an idle worker takes, until it was measured."""

MAX_OVERHEAD = 3.0
"""The maximum factor of the overhead, which is large while the first query starts."""


def process_tree_cpu_s() -> float:
    """Return the CPU time (s) of this process and its descendants since their start."""
    own = psutil.Process()
    return sum(map(_cpu_s, (own, *own.children(recursive=True))))


def _cpu_s(process: psutil.Process) -> float:
    # A process that has just ended counts for its parent.
    with suppress(psutil.Error):
        times = process.cpu_times()
        return times.user + times.system + times.children_user + times.children_system
    return 0.0


class CpuAccounting:
    """Divides the worker's CPU time among its fragments, from ``start`` to ``stop``.

    ``measured``: returns fragment id -> the CPU time (s) of its queries so far.
    """

    def __init__(
        self,
        measured: Callable[[], Mapping[str, float]],
        worker_cpu_s: Callable[[], float] = process_tree_cpu_s,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._measured = measured
        self._worker_cpu_s = worker_cpu_s
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._last: tuple[float, float, Mapping[str, float]] | None = None
        self._idle_cores = IDLE_CORES
        self._fragments_s = self._worker_s = 0.0
        self._total_s: dict[str, float] = {}
        self._thread = PeriodicThread(self.update, Schedule("cpu_accounting", _PERIOD_S))

    def start(self) -> None:
        """Start to measure."""
        self._thread.start()

    def stop(self) -> None:
        """Stop measuring."""
        self._thread.stop()

    def cpu_s(self, fragment: str) -> float:
        """Return the CPU time (s) of a fragment with its part of the overhead."""
        with self._lock:
            return self._total_s.get(fragment, 0.0)

    @property
    def overhead(self) -> float:
        """The factor by which the fragments' CPU time exceeds that of their queries; at least 1."""
        if self._fragments_s <= 0:
            return 1.0
        return min(max(self._worker_s / self._fragments_s, 1.0), MAX_OVERHEAD)

    def update(self) -> None:
        """Measure now, and add the CPU time since the last call to the fragments."""
        now, worker_s, measured = self._monotonic(), self._worker_cpu_s(), self._measured()
        last, self._last = self._last, (now, worker_s, dict(measured))
        if last is None:
            return
        seconds, spent_s = now - last[0], max(worker_s - last[1], 0.0)
        own_s = {id: max(cpu_s - last[2].get(id, 0.0), 0.0) for id, cpu_s in measured.items()}
        retained = 1 - min(seconds / _SMOOTHING_S, 1.0)
        if not measured and not last[2]:
            idle = spent_s / max(seconds, 1e-9)
            self._idle_cores = retained * self._idle_cores + (1 - retained) * idle
        self._fragments_s = retained * self._fragments_s + sum(own_s.values())
        busy_s = max(spent_s - self._idle_cores * seconds, 0.0) if measured else 0.0
        self._worker_s = retained * self._worker_s + busy_s
        with self._lock:
            self._total_s = {
                id: self._total_s.get(id, 0.0) + cpu_s * self.overhead
                for id, cpu_s in own_s.items()
            }
