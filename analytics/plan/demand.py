"""The demand of a fragment: the cores and the memory that a worker needs to run it."""

from dataclasses import dataclass

from analytics.plan.fragments import Fragment, Partial


@dataclass(frozen=True, slots=True)
class Demand:
    """Cores, and MB of memory."""

    cores: float
    memory_mb: float


PARTIAL = Demand(cores=0.1, memory_mb=60.0)
RESULT = Demand(cores=0.1, memory_mb=70.0)
"""The demand of a whole fragment or a merge, which also have windows in memory.

A fragment took 53 to 70 MB: docs/workers.md, "Memory of a worker".
"""

MAX_MEMORY_MB = max(PARTIAL.memory_mb, RESULT.memory_mb)
"""The memory (MB) with which a fragment of any kind can run."""


def demand_of(fragment: Fragment) -> Demand:
    """Return the demand of a fragment, before it runs."""
    match fragment:
        case Partial():
            return PARTIAL
        case _:
            return RESULT
