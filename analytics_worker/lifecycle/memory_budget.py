"""The memory that fragments may use on a worker, computed from measurements.

The budget includes the fragments that run already. So it does not change when a fragment starts,
and schedulers can subtract the demand of every fragment from it once.
"""

from dataclasses import dataclass

from analytics.plan.demand import MAX_MEMORY_MB
from mistbow.errors import CapacityError

IDLE_MB = 520.0
"""The memory of a worker without fragments, just after its start: Java, and Python processes."""

FIRST_FRAGMENT_MB = 100.0
"""The memory that Spark takes with the first fragment, and does not return: classes and heap."""

SETTLED_S = 75.0
"""The time (s) after which fragments that start or end have taken or returned their memory.

Spark ends its idle Python processes after a minute.
"""

MAX_EXCESS = 4.0
"""The maximum of the factor by which fragments use more memory than their demand."""

_HANDOVER_TOLERANCE_MB = 32.0

_SMALL_NODE_MB = 1280.0
"""The memory of a node below which the memory of a handover is offered to fragments too.

Such a node runs few fragments, so one more counts more than a handover without a pause.
"""

_RESERVE_SHARE = 0.05
_MIN_RESERVE_MB = 64.0
_MAX_RESERVE_MB = 256.0

MIN_MEMORY_MB = IDLE_MB + FIRST_FRAGMENT_MB + 2 * MAX_MEMORY_MB + _MIN_RESERVE_MB
"""The least memory (MB) of a worker, with which it runs one fragment and its handover."""


def check_memory(memory_mb: float) -> None:
    """Raise ``CapacityError`` if a node has too little memory for a worker with one fragment."""
    if memory_mb < MIN_MEMORY_MB:
        raise CapacityError(
            f"a worker needs at least {MIN_MEMORY_MB:.0f} MB of memory, and this node, or its "
            f"control group, has {memory_mb:.0f} MB",
            hint="Raise the limit of the memory, or run no worker on this node: other workers "
            "compute the insights of its site.",
        )


@dataclass(frozen=True, slots=True)
class MemoryReading:
    """One measurement, in MB: the node's limit, its free memory, and the memory of the worker.

    ``demand_mb``: the total demand of the worker's fragments. ``settled_s``: the time (s) for which
    the worker has had these fragments.
    """

    limit_mb: float
    free_mb: float
    own_mb: float
    demand_mb: float
    settled_s: float

    @property
    def is_settled(self) -> bool:
        """Whether the worker's memory belongs to the present fragments."""
        return self.settled_s >= SETTLED_S


class MemoryBudget:
    """Computes the budget from one reading after another.

    ``handover_mb``: the memory that a handover needs for a while, which is not offered.
    """

    def __init__(self, handover_mb: float) -> None:
        self._handover_mb = handover_mb
        self._reading = MemoryReading(1.0, 0.0, 0.0, 0.0, 0.0)
        self._idle_mb = IDLE_MB
        self._is_idle_measured = False
        self._settled_demand_mb = 0.0
        self._settled_own_mb = IDLE_MB + FIRST_FRAGMENT_MB
        self._excess = 1.0
        self._excess_demand_mb = 0.0

    @property
    def limit_mb(self) -> float:
        """The memory (MB) of the node."""
        return self._reading.limit_mb

    @property
    def free_mb(self) -> float:
        """The memory (MB) that is free now for more fragments; negative if it is in use."""
        is_small = self._reading.limit_mb < _SMALL_NODE_MB
        return self._unreserved_mb - (0.0 if is_small else self._handover_mb * self._excess)

    @property
    def used_mb(self) -> float:
        """The memory (MB) that the worker uses now beyond that of an idle worker."""
        return max(self._reading.own_mb - self._idle_mb, 0.0)

    @property
    def has_handover_memory(self) -> bool:
        """Whether a second query can start beside the running query of a fragment."""
        left_mb = self._unreserved_mb - self._handover_mb * self._excess
        return left_mb >= -_HANDOVER_TOLERANCE_MB

    @property
    def is_used_up(self) -> bool:
        """Whether so little memory is free that the kernel may kill processes."""
        return self._reading.free_mb < self._error_reserve_mb

    @property
    def excess(self) -> float:
        """The factor by which the fragments use more memory than their demand; at least 1."""
        return self._excess

    @property
    def budget_mb(self) -> float:
        """The total demand (MB) of the fragments that the worker can run, at least 0.

        It is the demand of the fragments that have settled, plus the free memory for more
        fragments. Memory that the worker has allocated since then belongs to starting fragments, so
        it counts as free. Fragments that use less than their demand make no room for more, because
        they need it when they start again. Running fragments count as fitting until the memory is
        used up; only further fragments need the memory of a handover.
        """
        reading = self._reading
        more_mb = (self.free_mb + reading.own_mb - self._settled_own_mb) / self._excess
        by_demand_mb = self.free_mb + reading.own_mb - IDLE_MB - FIRST_FRAGMENT_MB
        running_mb = 0.0 if self.is_used_up else reading.demand_mb
        budget_mb = max(min(self._settled_demand_mb + more_mb, by_demand_mb), running_mb)
        return min(max(budget_mb, 0.0), reading.limit_mb)

    def update(self, reading: MemoryReading) -> None:
        """Take a new reading into account."""
        self._reading = reading
        if not reading.is_settled:
            return
        self._settled_demand_mb, self._settled_own_mb = reading.demand_mb, reading.own_mb
        if reading.demand_mb == 0:
            self._update_idle(reading.own_mb)
        elif reading.demand_mb >= self._excess_demand_mb:
            # With fewer fragments, Java does not return all of their memory.
            used = (reading.own_mb - self._idle_mb - FIRST_FRAGMENT_MB) / reading.demand_mb
            self._excess = min(max(used, 1.0), MAX_EXCESS)
            self._excess_demand_mb = reading.demand_mb

    def _update_idle(self, own_mb: float) -> None:
        # New fragments can use memory that Java did not return: so the minimum counts.
        self._idle_mb = min(self._idle_mb, own_mb) if self._is_idle_measured else own_mb
        self._is_idle_measured = True
        self._settled_own_mb = self._idle_mb + FIRST_FRAGMENT_MB
        self._excess, self._excess_demand_mb = 1.0, 0.0

    @property
    def _unreserved_mb(self) -> float:
        return self._reading.free_mb - self._error_reserve_mb

    @property
    def _error_reserve_mb(self) -> float:
        share = _RESERVE_SHARE * self._reading.limit_mb
        return min(max(share, _MIN_RESERVE_MB), _MAX_RESERVE_MB)
