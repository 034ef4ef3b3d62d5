"""The oracle's results of all generations of a deployment, also where several values are right."""

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from tests.chaos.deployments import Deployment, Generation
from tests.oracle.stored_points import Identity, expected_values

LATE_MS = 10_000
"""The time (ms) after the end of a generation up to which its results must be corrected."""

_MAX_ARRIVALS = 24
_WINDOW_MS = 20_000
"""The longest window of the insights of a storm."""

Values = Mapping[Identity, float]


@dataclass(frozen=True, slots=True)
class Expected:
    """The oracle's results of a deployment: identity -> value.

    ``earlier``: the other values of results of ended generations, which lack points that arrived
    more than ``LATE_MS`` after the end, or any late points of a deleted deployment; None: no
    result. ``unknown``: the results with more values, since too many such points change them.
    """

    values: Values
    earlier: Mapping[Identity, frozenset[float | None]]
    unknown: frozenset[Identity]


def expected_results(deployment: Deployment, points: pa.Table, until: int) -> Expected:
    """Return the oracle's results of all generations of a deployment, up to a time (ms).

    All late points count. In ended generations, they need not count if they arrived long after the
    end, and in deleted deployments, which may have waited for corrections.
    """
    values: dict[Identity, float] = {}
    earlier: dict[Identity, frozenset[float | None]] = {}
    unknown: set[Identity] = set()
    for one in deployment.generations:
        last = until if one.until is None else min(until, one.until)
        final = _values(one, points, last, None)
        values |= final
        corrected_until = _corrected_until(deployment, one)
        if corrected_until is None:
            continue
        first = _values(one, points, last, corrected_until)
        changed = {
            each for each in final.keys() | first.keys() if final.get(each) != first.get(each)
        }
        arrivals = _later_arrivals(one, points, last, corrected_until) if changed else []
        if len(arrivals) > _MAX_ARRIVALS:
            unknown |= changed
            arrivals = []
        between = [_values(one, points, last, arrival + 1) for arrival in arrivals[:-1]]
        for each in changed:
            earlier[each] = frozenset(some.get(each) for some in (first, *between))
    return Expected(values, earlier, frozenset(unknown))


def _corrected_until(deployment: Deployment, generation: Generation) -> int | None:
    """Return the frontier (ms) before which arrived points must count; None: all points must."""
    if deployment.is_deleted:
        return 0
    return None if generation.until is None else generation.until + LATE_MS


def _later_arrivals(
    one: Generation, points: pa.Table, last: int, corrected_until: int
) -> list[int]:
    """Return the frontiers (ms) at which the late points arrived that need not count."""
    begin = one.since - _WINDOW_MS
    is_later = (
        (pc.field("horizon") >= corrected_until)
        & (pc.field("horizon") >= pc.field("ts"))
        & (pc.field("ts") > begin)
        & (pc.field("ts") <= last)
    )
    return sorted(pc.unique(points.filter(is_later)["horizon"]).to_pylist())


def _values(one: Generation, points: pa.Table, last: int, arrived_before: int | None) -> Values:
    """Return the results up to ``last``; late points count if they arrived before a frontier (ms).

    ``arrived_before``: None: all late points count.
    """
    place = points.schema.get_field_index("horizon")
    horizons, zero = points["horizon"], pa.scalar(0, pa.int64())
    if arrived_before is None:
        horizons = pa.repeat(zero, points.num_rows)
    else:
        horizons = pc.if_else(pc.less(horizons, arrived_before), zero, horizons)
    return expected_values(one.text, points.set_column(place, "horizon", horizons), one.since, last)
