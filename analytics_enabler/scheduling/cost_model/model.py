"""The cost model: fits coefficients to running fragments, and estimates other fragments.

The model is a table of coefficients by kind of work, times a factor for each worker. Both follow
the observations with exponential smoothing. Nothing is stored: after a restart, the fragments that
run teach the model again within a minute.
"""

import math
import statistics
from collections import OrderedDict
from collections.abc import Mapping

import msgspec
from msgspec import UNSET

from analytics.plan.demand import demand_of
from analytics.plan.fragments import Fragment, Merge
from analytics_enabler.scheduling.cost_model.coefficients import (
    INITIAL_BYTES,
    INITIAL_CPU_S,
    Sample,
    fit,
    total,
)
from analytics_enabler.scheduling.cost_model.work import Work
from analytics_enabler.scheduling.model.demands import FragmentCost

MAX_OBSERVATIONS = 200
"""The number of fragments that the model remembers, the last observed ones."""

HALF_LIFE_S = 3600.0
"""The age (s) at which an observation of a fragment that has ended counts half."""

_SMOOTHING = 0.3
"""The share of the newest fit in a coefficient."""

_FACTOR_PRIOR = 3.0
"""The number of observations of a worker that have half of the weight in its factor."""

_MIN_CORES = 1e-3

INITIAL_CHECK_S = 2e-5
"""The CPU time (s) of the check of one point on the reference machine, before it was measured."""

MIN_CHECKED = 20
"""The number of checked points from which their CPU time is learned."""


class Observation(msgspec.Struct, frozen=True, kw_only=True):
    """The work and the cost of a running fragment, with the worker's speed (1: the reference's)."""

    worker: str
    speed: float
    work: Work
    cores: float
    bytes_per_s: float
    seen_at_s: float = 0.0


class CostModel:
    """Learns by ``observe`` and ``learn``; ``estimate`` returns the cost of any fragment."""

    def __init__(self) -> None:
        self._observations: OrderedDict[str, Observation] = OrderedDict()
        self._cpu_s: Mapping[str, float] = dict(INITIAL_CPU_S)
        self._bytes: Mapping[str, float] = dict(INITIAL_BYTES)
        self._check_s = INITIAL_CHECK_S
        self._factors: dict[str, float] = {}
        self._speeds: Mapping[str, float] = {}

    def set_speeds(self, speeds: Mapping[str, float]) -> None:
        """Set the speeds of the calibrated workers: worker -> speed."""
        self._speeds = dict(speeds)

    @property
    def is_calibrated(self) -> bool:
        """Whether the speed of a worker is known, so that estimates mean something."""
        return bool(self._speeds)

    def observe(self, fragment: str, observation: Observation) -> None:
        """Add an observation of a version of a fragment, in place of its former one."""
        self._observations[fragment] = observation
        self._observations.move_to_end(fragment)
        while len(self._observations) > MAX_OBSERVATIONS:
            self._observations.popitem(last=False)

    def observe_checks(self, points: int, cpu_s: float, speed: float) -> None:
        """Learn from the checks of points since the last call, on a worker of this speed."""
        if points >= MIN_CHECKED and cpu_s > 0:
            self._check_s += _SMOOTHING * (cpu_s * speed / points - self._check_s)

    def check_core_s(self, worker: str | None = None) -> float:
        """Return the CPU time (s) of the check of one point on a worker; None: the mean worker."""
        return self._check_s * self.slowness(worker)

    def learn(self, now_s: float) -> None:
        """Fit the coefficients to the observations, with exponential smoothing."""
        found = [
            (each, 0.5 ** ((now_s - each.seen_at_s) / HALF_LIFE_S))
            for each in self._observations.values()
        ]
        cpu = [
            Sample(
                each.work.cpu, each.cores * each.speed / self._factors.get(each.worker, 1.0), weight
            )
            for each, weight in found
            if each.cores > _MIN_CORES
        ]
        written = [
            Sample(each.work.written, each.bytes_per_s, weight)
            for each, weight in found
            if each.bytes_per_s > 1
        ]
        self._cpu_s = _smoothed(self._cpu_s, fit(cpu, INITIAL_CPU_S))
        self._bytes = _smoothed(self._bytes, fit(written, INITIAL_BYTES))
        self._learn_factors()

    def _learn_factors(self) -> None:
        """Set the factor of each worker, by which its fragments differ from its calibration.

        The workers are compared with each other: with one worker, the coefficients suffice.
        """
        ratios: dict[str, list[float]] = {}
        for each in self._observations.values():
            predicted = total(each.work.cpu, self._cpu_s)
            if predicted > 0 and each.cores > _MIN_CORES:
                ratio = math.log(each.cores * each.speed / predicted)
                ratios.setdefault(each.worker, []).append(ratio)
        if len(ratios) < 2:
            self._factors = {}
            return
        middle = statistics.mean(statistics.median(each) for each in ratios.values())
        goals = {
            worker: math.exp(
                (statistics.median(each) - middle) * len(each) / (len(each) + _FACTOR_PRIOR)
            )
            for worker, each in ratios.items()
        }
        former = {worker: self._factors.get(worker, 1.0) for worker in goals}
        self._factors = _smoothed(former, goals)

    def estimate(self, fragment: Fragment, work: Work, worker: str | None = None) -> FragmentCost:
        """Return the estimated cost of a fragment on a worker; None: on the mean worker."""
        scale = self.slowness(worker)
        return FragmentCost(
            cores=max(total(work.cpu, self._cpu_s) * scale, _MIN_CORES),
            memory_mb=demand_of(fragment).memory_mb,
            points_per_s=work.points_per_s,
            bytes_per_s=total(work.written, self._bytes),
            check_core_s=self.check_core_s(worker) if reads_points(fragment) else None,
        )

    def slowness(self, worker: str | None) -> float:
        """Return the CPU time of a worker relative to the reference; None: the mean worker."""
        names = [worker] if worker in self._speeds else list(self._speeds)
        slowness = [self._factors.get(name, 1.0) / self._speeds[name] for name in names if name]
        return statistics.mean(slowness) if slowness else 1.0

    @property
    def coefficients(self) -> Mapping[str, float]:
        """Kind of work -> CPU time (s) of a unit on the reference machine."""
        return self._cpu_s


def reads_points(fragment: Fragment) -> bool:
    """Return whether a fragment reads raw points, whose quality can be checked."""
    return not isinstance(fragment, Merge) and not reads_feed(fragment)


def reads_feed(fragment: Fragment) -> bool:
    """Return whether a fragment reads a feed: a stored stream whose rows become points."""
    return not isinstance(fragment, Merge) and fragment.source.feed is not UNSET


def _smoothed(former: Mapping[str, float], newest: Mapping[str, float]) -> dict[str, float]:
    return {
        kind: former[kind] + _SMOOTHING * (value - former[kind]) for kind, value in newest.items()
    }
