"""The demand of a fragment: the cores and the memory that a worker needs to run it."""

from dataclasses import dataclass

from analytics.plan.fragments import Fragment, Partial


@dataclass(frozen=True, slots=True)
class Demand:
    """Cores, and MB of memory."""

    cores: float
    memory_mb: float


PARTIAL = Demand(cores=0.1, memory_mb=270.0)
RESULT = Demand(cores=0.1, memory_mb=290.0)
"""The demand of a whole fragment or a merge, which also have windows in memory.

A fragment took 240 to 290 MB while it started: docs/operations.md, "Memory of a worker". Most of
the memory belongs to Python processes. One of these processes reads the source of the query.
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
