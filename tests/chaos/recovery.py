"""The times from a worker's death to the next result, from the rows of the streams of results."""

import bisect
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import pyarrow as pa

from mistbow.errors import NotFoundError
from tests.chaos.deployments import Deployment
from tests.chaos.fog import CENTRE, ChaosFog
from tests.chaos.storm import InjectedFault, StormLog

GOAL_MS = 8000
"""The goal for the 95th percentile of the time from a worker's death to the next result.

It is a goal for deaths ``alone``: a storm may take away at once what a recovery needs.
"""

MIN_DEATHS = 10
"""The number of deaths ``alone`` from which on their 95th percentile is compared with the goal."""

RESULTS = "results/"
"""What the names of all streams of results begin with."""

_BEFORE_MS = 15_000
_AFTER_MS = 10_000


@dataclass(frozen=True, slots=True)
class Recovery:
    """The recovery from a worker's death; times in ms.

    ``next``: from the death to the first result at a later tick. ``complete``: to the first such
    result that lacks no site. None: there was no such result. ``alone``: whether no other fault was
    injected or lasted from 15 s before to 10 s after the death.
    """

    death: InjectedFault
    next: int | None
    complete: int | None
    alone: bool


@dataclass(frozen=True, slots=True)
class ComputedResult:
    """A row of a stream of results; times in ms. ``is_complete``: whether it lacks no site."""

    tick: int
    computed_at: int
    is_complete: bool


def computed_results(fog: ChaosFog, deployment: Deployment) -> list[ComputedResult]:
    """Return all revisions of a deployment's results that the centre stores."""
    uids = {generation.uid for generation in deployment.generations}
    found = []
    with fog.agent(CENTRE) as client:
        names = [each.name for each in client.streams() if each.name.startswith(RESULTS)]
        for name in names:
            try:
                table = client.read(name, match={"insight": sorted(uids)}).table
            except NotFoundError:
                continue
            found += _rows(table)
    return found


def recoveries(log: StormLog, results: Iterable[ComputedResult]) -> list[Recovery]:
    """Return the recovery from each death of a worker in a storm."""
    rows = list(results)
    return [
        Recovery(
            death,
            _time_to_next(death.at, rows),
            _time_to_next(death.at, [row for row in rows if row.is_complete]),
            not any(_is_near(death, other) for other in log.injected),
        )
        for death in log.injected
        if death.ended_worker
    ]


def longest_pause(results: Iterable[ComputedResult], began: int, ended: int) -> int:
    """Return the longest time (ms) without a result of a new tick, between two times."""
    times = sorted(_first_computations(results))
    inside = [began, *times[bisect.bisect(times, began) : bisect.bisect(times, ended)], ended]
    return max(later - earlier for earlier, later in pairwise(inside))


def percentile(times: Sequence[int | None], share: float) -> float | None:
    """Return the smallest time that at least a share of the times do not exceed; None: no times.

    A time None is infinite: there was no recovery.

    >>> percentile([5, 1, 9], 0.5), percentile([5, 1, None], 0.95), percentile([], 0.5)
    (5, inf, None)
    """
    if not times:
        return None
    known = sorted(math.inf if each is None else each for each in times)
    return known[max(0, math.ceil(share * len(known)) - 1)]


def misses_goal(found: Iterable[Recovery]) -> bool:
    """Return whether the recoveries from deaths ``alone`` miss the goal; False: too few of them."""
    times = [each.next for each in found if each.alone]
    longest = percentile(times, 0.95) if len(times) >= MIN_DEATHS else None
    return longest is not None and longest > GOAL_MS


def _time_to_next(death: int, rows: Iterable[ComputedResult]) -> int | None:
    later = [row.computed_at - death for row in rows if row.tick > death]
    return min(later, default=None)


def _is_near(death: InjectedFault, other: InjectedFault) -> bool:
    if other is death or not other.step.target.sites:
        return False
    until = other.at if other.until is None else other.until
    return other.at < death.at + _AFTER_MS and until > death.at - _BEFORE_MS


def _first_computations(results: Iterable[ComputedResult]) -> Iterator[int]:
    """Yield when the first result of each tick was computed."""
    first: dict[int, int] = {}
    for row in results:
        first[row.tick] = min(row.computed_at, first.get(row.tick, row.computed_at))
    yield from first.values()


def _rows(table: pa.Table) -> Iterator[ComputedResult]:
    columns = (table[name].to_pylist() for name in ("ts", "computed_at", "missing"))
    for tick, computed_at, missing in zip(*columns, strict=True):
        yield ComputedResult(tick, computed_at, not missing)
