"""The monitor of a worker's capacity: measures it each second, and admits fragments."""

import threading
import time
from collections.abc import Callable, Sequence

import msgspec

from analytics.plan.demand import MAX_MEMORY_MB, demand_of
from analytics.plan.fragments import Fragment
from analytics_worker.lifecycle.capacity import NodeMemory, cores, node_memory, own_memory_mb
from analytics_worker.lifecycle.kill_record import KillRecord
from analytics_worker.lifecycle.memory_budget import MemoryBudget, MemoryReading
from mistbow.errors import CapacityError
from mistbow.fabric import FragmentLimit, Worker
from mistbow.runtime.periodic import PeriodicThread, Schedule

_PERIOD_S = 1.0

_MAX_AGE_S = 5.0
"""The age (s) at which the worker's memory is measured again even if the node's has not changed.

The kernel visits all pages of all processes for this: with five fragments, this took 50 ms of CPU
time.
"""

_STEP_SHARE = 0.03
_MIN_STEP_MB = 32.0
_MAX_STEP_MB = 128.0
"""The smallest change of the budget that is announced: a share of the node's memory, within bounds.

Each announced change is stored at all sites, and may cause a decision of the schedulers.
"""


class Measures(msgspec.Struct, frozen=True):
    """The functions that measure; tests replace them."""

    cores: Callable[[], float] = cores
    node: Callable[[], NodeMemory] = node_memory
    own_mb: Callable[[], float] = own_memory_mb


class _Measurement(msgspec.Struct, frozen=True):
    """The memory of the node and of the worker (MB), measured at one time (s)."""

    at: float
    node: NodeMemory
    own_mb: float


class CapacityMonitor:
    """Measures from ``start`` to ``stop``.

    ``fragments``: returns the fragments of the worker. ``queries``: returns the number of their
    queries, which is greater during a handover. ``free_cores``: returns how many of the cores are
    free for fragments.
    """

    def __init__(
        self,
        fragments: Callable[[], Sequence[Fragment]],
        queries: Callable[[], int],
        kills: KillRecord,
        measures: Measures = Measures(),
        monotonic: Callable[[], float] = time.monotonic,
        free_cores: Callable[[float], float] = lambda cores: cores,
    ) -> None:
        self._fragments = fragments
        self._queries = queries
        self._kills = kills
        self._measures = measures
        self._monotonic = monotonic
        self._budget = MemoryBudget(handover_mb=MAX_MEMORY_MB)
        self._lock = threading.Lock()
        self._running: frozenset[str] = frozenset()
        self._changed_at = monotonic()
        self._measured: _Measurement | None = None
        self._free_cores = free_cores
        self._cores = self._cores_free = measures.cores()
        self._announced_mb = 0.0
        self._announced_limit_mb = 0.0
        self._announced_limit: FragmentLimit | None = None
        self._is_warm = False
        self._thread = PeriodicThread(self.measure, Schedule("capacity_measurement", _PERIOD_S))

    def start(self) -> None:
        """Measure, and start to measure each second."""
        self._kills.open()
        self.measure()
        self._thread.start()

    def note_warm(self) -> None:
        """Record that the engine has taken the memory that it needs without fragments."""
        with self._lock:
            self._is_warm, self._changed_at = True, self._monotonic()

    def stop(self) -> None:
        """Stop measuring, and record that the worker was not killed."""
        self._thread.stop()
        self._kills.stop()

    def measure(self) -> None:
        """Measure the capacity now."""
        fragments = self._fragments()
        demand_mb = _demand_mb(fragments)
        running = frozenset(fragment.fingerprint for fragment in fragments)
        is_handover = self._queries() > len(fragments)
        cores = self._measures.cores()
        cores_free = self._free_cores(cores)
        measured = self._measure_memory(running)
        with self._lock:
            if running != self._running or is_handover:
                self._running, self._changed_at = running, self._monotonic()
            settled_s = self._monotonic() - self._changed_at if self._is_warm else 0.0
            self._cores, self._cores_free = cores, cores_free
            node, own_mb = measured.node, measured.own_mb
            self._budget.update(
                MemoryReading(node.limit_mb, node.free_mb, own_mb, demand_mb, settled_s)
            )
            self._kills.update(len(fragments), is_short=self._budget.is_used_up)
            self._announce()

    def _measure_memory(self, running: frozenset[str]) -> _Measurement:
        """Measure the memory of the node, and of the worker if the latter may have changed."""
        now, node, former = self._monotonic(), self._measures.node(), self._measured
        if (
            former is None
            or now - former.at >= _MAX_AGE_S
            or running != self._running
            or node.limit_mb != former.node.limit_mb
            or abs(node.free_mb - former.node.free_mb) >= _MIN_STEP_MB
        ):
            self._measured = former = _Measurement(now, node, self._measures.own_mb())
        return former

    def announced(self, worker: Worker) -> Worker:
        """Return the announcement of a worker with its present capacity."""
        with self._lock:
            return msgspec.structs.replace(
                worker,
                cores=self._cores,
                memory_mb=self._announced_limit_mb,
                cores_free=self._cores_free,
                memory_free_mb=self._announced_mb,
                limit=self._announced_limit,
            )

    def check(self, fragment: Fragment, running: Sequence[Fragment]) -> None:
        """Raise ``CapacityError`` if a fragment does not fit beside the running fragments."""
        limit = self._kills.limit
        if limit is not None and len(running) >= limit.fragments:
            raise _limit_error(fragment, limit)
        needed_mb = demand_of(fragment).memory_mb
        with self._lock:
            budget = self._budget
            # The scheduler decided by the announced memory, which may differ by one step.
            left_mb = budget.budget_mb - _demand_mb(running)
            if needed_mb > left_mb + self._step_mb:
                raise _memory_error(fragment, budget, needed_mb, left_mb)

    @property
    def used_mb(self) -> float:
        """The memory (MB) that the worker uses for fragments, without that of an idle worker."""
        with self._lock:
            return self._budget.used_mb

    def has_handover_memory(self) -> bool:
        """Return whether a second query can start beside the running query of a fragment."""
        with self._lock:
            return self._budget.has_handover_memory

    @property
    def _step_mb(self) -> float:
        return min(max(_STEP_SHARE * self._budget.limit_mb, _MIN_STEP_MB), _MAX_STEP_MB)

    def _announce(self) -> None:
        """Set the announced figures, unless they differ little from the measured ones."""
        budget_mb, limit_mb = self._budget.budget_mb, self._budget.limit_mb
        limit, former = self._kills.limit, self._announced_limit
        if limit is not None:
            budget_mb = min(budget_mb, limit.fragments * MAX_MEMORY_MB)
        is_used_up = budget_mb == 0 < self._announced_mb
        is_small = abs(budget_mb - self._announced_mb) < self._step_mb
        if not is_small or is_used_up or limit != former:
            self._announced_mb, self._announced_limit = float(round(budget_mb)), limit
        if abs(limit_mb - self._announced_limit_mb) >= 1:
            self._announced_limit_mb = float(round(limit_mb))
        self._announced_mb = min(self._announced_mb, self._announced_limit_mb)


def _demand_mb(fragments: Sequence[Fragment]) -> float:
    return sum(demand_of(fragment).memory_mb for fragment in fragments)


def _memory_error(
    fragment: Fragment, budget: MemoryBudget, needed_mb: float, left_mb: float
) -> CapacityError:
    needed_mb *= budget.excess
    left_mb = max(left_mb * budget.excess, 0.0)
    return CapacityError(
        f"the fragment {fragment.id} needs {needed_mb:.0f} MB of memory, and {left_mb:.0f} MB of "
        f"{budget.limit_mb:.0f} MB is free for fragments",
        hint="Give the worker more memory, remove insights, or add a worker.",
        details={"needed_mb": round(needed_mb), "free_mb": round(left_mb)},
    )


def _limit_error(fragment: Fragment, limit: FragmentLimit) -> CapacityError:
    return CapacityError(
        f"the fragment {fragment.id} does not run here now: the worker runs at most "
        f"{limit.fragments} fragments after it was killed for lack of memory with {limit.ran}",
        hint="The worker accepts more fragments later. Give it more memory, or remove insights.",
        details={"max_fragments": limit.fragments, "until": limit.until},
    )
