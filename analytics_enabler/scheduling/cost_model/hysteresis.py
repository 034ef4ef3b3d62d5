"""Hysteresis of demands, so that noise in measurements and estimates moves no fragment."""

import msgspec

from analytics_enabler.scheduling.model.demands import FragmentCost

STEP_SHARE = 0.25
"""The smallest relative change of a demand that counts."""

CORES_STEP = 0.02
"""The smallest change of the cores that counts."""

BYTES_STEP = 200.0
"""The smallest change of the written bytes per second that counts."""

CHECK_STEP_S = 1e-6
"""The smallest change of the CPU time (s) of the check of one point that counts."""

POINTS_STEP = 5.0
"""The smallest change of the points per second that counts."""


def stable_cost(cost: FragmentCost, former: FragmentCost | None) -> FragmentCost:
    """Return a cost in which figures that differ little from ``former`` have their former values.

    >>> before = FragmentCost(cores=0.1, memory_mb=270.0, points_per_s=50.0)
    >>> stable_cost(FragmentCost(cores=0.12, memory_mb=270.0, points_per_s=80.0), before)
    FragmentCost(cores=0.1, memory_mb=270.0, points_per_s=80.0, bytes_per_s=None, check_core_s=None)
    """
    if former is None:
        return cost
    return msgspec.structs.replace(
        cost,
        cores=_stable(cost.cores, former.cores, CORES_STEP),
        points_per_s=_stable(cost.points_per_s, former.points_per_s, POINTS_STEP),
        bytes_per_s=_stable(cost.bytes_per_s, former.bytes_per_s, BYTES_STEP),
        check_core_s=_stable(cost.check_core_s, former.check_core_s, CHECK_STEP_S),
    )


def _stable(value: float | None, former: float | None, step: float) -> float | None:
    if value is None or former is None:
        return value
    return former if abs(value - former) < max(step, STEP_SHARE * former) else value
