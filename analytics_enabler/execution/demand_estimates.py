"""The demands of fragments: estimated by the cost model, and measured once the fragments run."""

import asyncio
import statistics
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

import msgspec
from cachetools import LRUCache

from analytics.plan.demand import demand_of
from analytics.plan.fragments import Fragment, Merge
from analytics.plan.status import FragmentStatus
from analytics_enabler.catalogue import DataCatalogue, SeriesIndex
from analytics_enabler.execution.planner import Planner
from analytics_enabler.execution.point_rates import PointRates
from analytics_enabler.execution.rate_meter import FragmentRates
from analytics_enabler.execution.source_quality import SourceQualities
from analytics_enabler.execution.worker_reconcilers import WorkerReconcilers
from analytics_enabler.scheduling.cost_model.hysteresis import stable_cost
from analytics_enabler.scheduling.cost_model.last_demands import LastDemands
from analytics_enabler.scheduling.cost_model.model import (
    MIN_CHECKED,
    CostModel,
    Observation,
    reads_feed,
)
from analytics_enabler.scheduling.cost_model.work import SeriesRates, Work, work_of
from analytics_enabler.scheduling.model.demands import FragmentCost
from mistbow.runtime.periodic import PeriodicTask, Schedule

PERIOD_S = 5.0
"""The interval (s) at which the cost model learns."""

MIN_SPAN_S = 45.0
"""The time (s) after which a measurement counts: a start needs more CPU time."""

RATES_PERIOD_S = 30.0
"""The interval (s) at which the series and their rates are measured."""

MAX_FIRST_ESTIMATES = 200
_MAX_WORKS = 10_000


class DemandEstimates:
    """Estimates fragments, and teaches the cost model by the workers' reports.

    ``on_change``: called when the demand of a fragment has changed. ``is_reachable``: returns
    whether a site is reachable.
    """

    def __init__(
        self,
        planner: Planner,
        workers: WorkerReconcilers,
        catalogue: DataCatalogue,
        rates: PointRates,
        qualities: SourceQualities,
        on_change: Callable[[], None],
        is_reachable: Callable[[str], bool],
    ) -> None:
        self._planner = planner
        self._workers = workers
        self._catalogue = catalogue
        self._rates = rates
        self._qualities = qualities
        self._on_change = on_change
        self._is_reachable = is_reachable
        self._model = CostModel()
        self._last_demands = LastDemands(time.monotonic)
        self._series = SeriesIndex()
        self._series_rates: SeriesRates = {}
        self._works: LRUCache[str, Work] = LRUCache(_MAX_WORKS)
        """Fingerprint of a fragment -> its work with the present series and rates."""
        self._rates_at: float | None = None
        self._sites: frozenset[str] = frozenset()
        self._demands: dict[str, FragmentCost] = {}
        self.present_cores: Mapping[str, float] = {}
        """Fragment -> the cores that it demands now, without hysteresis."""
        self._checks: dict[tuple[str, str], tuple[int, float]] = {}
        """(worker, fragment) -> the checked points so far, and the CPU time (s) of the checks."""
        self._first: OrderedDict[str, FragmentCost] = OrderedDict()
        self.version = 0
        """The number of changes of demands."""
        self.task = PeriodicTask(self.update, Schedule("demand_estimation", PERIOD_S))

    @property
    def is_calibrated(self) -> bool:
        """Whether demands are estimates of the fragments, not constants."""
        return self._model.is_calibrated

    def demand(self, fragment: Fragment) -> FragmentCost:
        """Return the demand of a fragment for the schedulers: measured, else estimated.

        Until a worker is calibrated, the demand is the same for all fragments of a kind. It differs
        clearly from the last demand, or is equal to it.
        """
        return stable_cost(self._present(fragment), self._demands.get(fragment.id))

    def _present(self, fragment: Fragment) -> FragmentCost:
        """Return the present demand of a fragment."""
        constant = demand_of(fragment)
        if not self._model.is_calibrated:
            return FragmentCost(cores=constant.cores, memory_mb=constant.memory_mb)
        found = self.measured(fragment) or self._not_measured(fragment)
        # A fragment needs this memory again when it restarts, even if it uses less now.
        return FragmentCost(
            cores=found.cores,
            memory_mb=constant.memory_mb,
            points_per_s=found.points_per_s,
            bytes_per_s=found.bytes_per_s,
            check_core_s=self.estimated(fragment).check_core_s,
        )

    def estimated(self, fragment: Fragment) -> FragmentCost:
        """Return the estimate of the cost model, whether the fragment runs or not."""
        worker = self._worker_of(fragment)
        return self._model.estimate(fragment, self._work(fragment), worker)

    def _not_measured(self, fragment: Fragment) -> FragmentCost:
        """Return the estimate, or the last demand if it is higher.

        A delayed fragment needs at least the cores that it uses for its progress.
        """
        cores = self._last_demands.expected(fragment.fingerprint, self._reference_cores(fragment))
        cores *= self._model.slowness(self._worker_of(fragment))
        least = max((cores for _, cores in self._least_cores(fragment)), default=0.0)
        return msgspec.structs.replace(self.estimated(fragment), cores=max(cores, least))

    def _reference_cores(self, fragment: Fragment) -> float:
        """Return the estimated cores on the reference machine."""
        slowness = self._model.slowness(self._worker_of(fragment))
        return (self.estimated(fragment).cores or 0.0) / slowness

    def _least_cores(self, fragment: Fragment) -> Iterator[tuple[str, float]]:
        """Yield worker and the cores that a delayed fragment needs there at least."""
        for found in self._running(fragment):
            if found.version == fragment.fingerprint and found.rates.least_cores is not None:
                yield found.worker, found.rates.least_cores

    def measured(self, fragment: Fragment) -> FragmentCost | None:
        """Return the measured demand of a fragment; None: not on time for ``MIN_SPAN_S`` yet.

        The usage of a fragment that waits for data, replays data or is delayed differs from its
        demand, and a fragment without a micro-batch has no usage yet.
        """
        found = self._measurement(fragment)
        return None if found is None else _cost(found)

    def measured_version(self, fragment: Fragment) -> FragmentCost | None:
        """Return the measured demand of the running version of a fragment.

        Another version may be planned. None: it has not run on time for ``MIN_SPAN_S``.
        """
        for found in self._timely(fragment):
            return _cost(found)
        return None

    def _measurement(self, fragment: Fragment) -> "_Measurement | None":
        for found in self._timely(fragment):
            if found.version == fragment.fingerprint:
                return found
        return None

    def _timely(self, fragment: Fragment) -> Iterator["_Measurement"]:
        """Yield the measurements of a fragment that has run on time."""
        for found in self._running(fragment):
            if found.rates.is_on_time(fragment.grain_ms, is_feed=reads_feed(fragment)):
                yield found

    def _running(self, fragment: Fragment) -> Iterator["_Measurement"]:
        """Yield the measurements of a fragment that has run for ``MIN_SPAN_S``."""
        for reconciler in self._workers.all():
            status = reconciler.observed.get(fragment.id)
            meter = reconciler.meters.get(fragment.id)
            rates = None if meter is None else meter.rates(MIN_SPAN_S)
            if status is not None and meter is not None and rates is not None:
                yield _Measurement(reconciler.worker.name, status, meter.version, rates)

    def first_estimate(self, fragment: Fragment) -> FragmentCost | None:
        """Return the estimate that was made before the fragment was measured."""
        return self._first.get(fragment.fingerprint)

    @property
    def median_errors(self) -> dict[str, float]:
        """Resource -> the median relative error of the first estimates of running fragments."""
        errors: dict[str, list[float]] = {"cpu": [], "bytes": []}
        for fragment in self.fragments():
            first, measured = self.first_estimate(fragment), self.measured(fragment)
            if first is None or measured is None:
                continue
            for name, (guess, actual) in {
                "cpu": (first.cores, measured.cores),
                "bytes": (first.bytes_per_s, measured.bytes_per_s),
            }.items():
                if guess is not None and actual:
                    errors[name].append(abs(guess - actual) / actual)
        return {name: statistics.median(each) for name, each in errors.items() if each}

    def settle(self) -> None:
        """Store the demands of the planned fragments, with which later demands are compared."""
        self._demands = {fragment.id: self.demand(fragment) for fragment in self.fragments()}

    async def update(self) -> None:
        """Learn from the reports of the workers, and report whether a demand has changed."""
        workers = self._workers.all()
        speeds = {each.worker.name: each.worker.speed for each in workers}
        self._model.set_speeds({name: speed for name, speed in speeds.items() if speed})
        await self.prepare(self.fragments())
        self._note_first_estimates()
        for name, observation in self._observations():
            self._model.observe(name, observation)
        self._observe_checks()
        self._note_demands()
        await asyncio.to_thread(self._model.learn, time.monotonic())
        sites = {site for each in self.fragments() for site in _sites_of(each)}
        if await self._qualities.refresh(sites):
            self._on_change()
        present = {fragment.id: self._present(fragment) for fragment in self.fragments()}
        self.present_cores = {id: each.cores for id, each in present.items() if each.cores}
        if any(
            stable_cost(each, self._demands.get(id)) != self._demands.get(id)
            for id, each in present.items()
        ):
            self.version += 1
            self._on_change()

    def _note_first_estimates(self) -> None:
        """Store the estimates of the fragments that were not measured yet."""
        if not self._model.is_calibrated:
            return
        for fragment in self.fragments():
            if fragment.fingerprint not in self._first and self.measured(fragment) is None:
                self._first[fragment.fingerprint] = self.estimated(fragment)
        while len(self._first) > MAX_FIRST_ESTIMATES:
            self._first.popitem(last=False)

    def _observations(self) -> Iterator[tuple[str, Observation]]:
        now = time.monotonic()
        for fragment in self.fragments():
            found, worker = self._measurement(fragment), self._worker_of(fragment)
            reconciler = None if worker is None else self._workers.get(worker)
            if found is None or reconciler is None or not reconciler.worker.speed:
                continue
            rates = found.rates
            work = self._work(fragment).as_measured(rates.rows, rates.batches)
            observation = Observation(
                worker=reconciler.worker.name,
                speed=reconciler.worker.speed,
                work=work,
                cores=rates.cores,
                bytes_per_s=rates.written_bytes,
                seen_at_s=now,
            )
            yield fragment.fingerprint, observation

    def _note_demands(self) -> None:
        """Store the demands of the fragments, for times without a measurement."""
        for fragment in self.fragments():
            version, estimated = fragment.fingerprint, self._reference_cores(fragment)
            if (found := self._measurement(fragment)) is not None:
                cores = found.rates.cores / self._model.slowness(found.worker)
                self._last_demands.observe_measurement(version, estimated, cores)
                continue
            for worker, least in self._least_cores(fragment):
                cores = least / self._model.slowness(worker)
                self._last_demands.observe_minimum(version, estimated, cores)

    def _observe_checks(self) -> None:
        former, self._checks = self._checks, {}
        for reconciler in self._workers.all():
            speed = reconciler.worker.speed
            for id, status in reconciler.observed.items():
                key, found = (
                    (reconciler.worker.name, id),
                    (status.points_checked, status.check_cpu_s),
                )
                before = former.get(key, found)
                points = found[0] - before[0]
                # A few points are counted together with the next ones.
                self._checks[key] = before if 0 <= points < MIN_CHECKED else found
                if speed:
                    self._model.observe_checks(points, found[1] - before[1], speed)

    async def prepare(self, fragments: Iterable[Fragment]) -> None:
        """Measure the rates of the series that fragments read, if it is time or a site is new."""
        read = frozenset(site for each in fragments for site in _sites_of(each))
        # A request to another site is repeated for up to 2 s, for which a submission would wait.
        sites = frozenset(filter(self._is_reachable, read))
        now = time.monotonic()
        is_recent = self._rates_at is not None and now - self._rates_at < RATES_PERIOD_S
        is_recent = is_recent and len(self._series) > 0
        if not read or (is_recent and sites <= self._sites):
            return
        sites |= frozenset(filter(self._is_reachable, self._sites)) if is_recent else frozenset()
        self._rates_at, self._sites = now, sites
        series = await self._catalogue.series()
        rates = await self._rates.metric_rates(sorted(sites))
        if series is not None:
            active = {key: each.entities for key, each in rates.items() if each.entities}
            self._series = series.restricted(active)
        # A metric without a point among the last ones is rare.
        measured = {site for site, _ in rates}
        points_per_s = {key: each.points_per_s for key, each in rates.items()}
        self._series_rates = {
            (site, metric): points_per_s.get((site, metric), 0.0) / count
            for (site, metric), count in self._series.counts.items()
            if site in measured
        }
        self._works.clear()

    def _work(self, fragment: Fragment) -> Work:
        work: Work | None = self._works.get(fragment.fingerprint)
        if work is None:
            work = work_of(fragment, self._series, self._series_rates)
            self._works[fragment.fingerprint] = work
        return work

    def _worker_of(self, fragment: Fragment) -> str | None:
        for reconciler in self._workers.all():
            if fragment.id in reconciler.observed:
                return reconciler.worker.name
        return None

    def fragments(self) -> Iterable[Fragment]:
        """Return the planned fragments."""
        return [each for tasks in self._planner.tasks.values() for each in tasks.values()]


@dataclass(frozen=True, slots=True)
class _Measurement:
    """The status and the rates of the running version of a fragment on a worker."""

    worker: str
    status: FragmentStatus
    version: str | None
    rates: FragmentRates


def _cost(found: _Measurement) -> FragmentCost:
    return FragmentCost(
        cores=found.rates.cores,
        memory_mb=found.status.memory_mb,
        points_per_s=found.rates.rows,
        bytes_per_s=found.rates.written_bytes,
    )


def _sites_of(fragment: Fragment) -> Iterable[str]:
    if isinstance(fragment, Merge):
        return [location.data_site for location in fragment.sources]
    return [fragment.source.site]
