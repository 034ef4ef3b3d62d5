"""The metrics of a simulation: how good the placements were, weighted by time."""

from collections.abc import Sequence

import msgspec
import numpy as np

from analytics_enabler.scheduling.driver.traffic import POINT_BYTES
from analytics_enabler.scheduling.model.jobs import Job, Placement, critical_path_ms
from analytics_enabler.scheduling.model.snapshot import Fog
from analytics_enabler.scheduling.sandbox.guard import Outcome

_HOUR_S = 3600.0


class Sample(msgspec.Struct, frozen=True, kw_only=True):
    """The fog and its placements from a time (h) on, until the next sample.

    ``latency_p50_ms`` and ``latency_p90_ms``: of the critical paths of the placed jobs.
    ``power_w``: the power that the fragments need in addition to idle nodes. ``bytes_per_s``:
    between sites. ``quality``: the share of the points that are checked. ``refused``: the fragments
    without a node. ``migrations``: the fragments that were moved from a node that is alive.
    ``displaced``: the fragments whose nodes were lost.
    """

    at_h: float
    nodes: int
    latency_p50_ms: float
    latency_p90_ms: float
    power_w: float
    cost_per_hour: float
    bytes_per_s: float
    quality: float
    refused: int
    migrations: int
    displaced: int


class Totals(msgspec.Struct, frozen=True, kw_only=True):
    """The metrics of a whole simulation.

    The latencies are percentiles over jobs and time, for placed jobs with a known path, which are
    placed for ``reachable_job_hours`` in all. ``unreachable_job_hours``: the hours of placed jobs
    without a known path. ``refused_fragment_hours``: the hours in which fragments had no node, in
    all. The other metrics are sums over the samples, or means over time.
    """

    latency_p50_ms: float
    latency_p90_ms: float
    energy_wh: float
    cost: float
    quality: float
    gigabytes: float
    refused_fragment_hours: float
    reachable_job_hours: float
    unreachable_job_hours: float
    migrations: int
    displaced: int
    decisions: int
    failures: int


class Metrics:
    """Collects samples, and sums them up."""

    def __init__(self, jobs: Sequence[Job]) -> None:
        self._jobs = jobs
        self._latencies: list[float] = []
        self._weights: list[float] = []
        self._durations_h: list[float] = []
        self._unreachable_h = 0.0
        self._failures = 0
        self.samples: list[Sample] = []

    def add(
        self, at_s: float, duration_s: float, fog: Fog, outcome: Outcome, before: Placement
    ) -> None:
        """Add the decision that is in force from a time on, for a duration (both in s).

        ``before``: the placement before the decision.
        """
        placement, hours = outcome.decision.placement, duration_s / _HOUR_S
        paths = [
            critical_path_ms(job, placement, fog) for job in outcome.decision.placed(self._jobs)
        ]
        known = [path for path in paths if np.isfinite(path)]
        self._latencies += known
        self._weights += [hours] * len(known)
        self._unreachable_h += (len(paths) - len(known)) * hours
        self._durations_h.append(hours)
        self._failures += len(outcome.problems)
        moved = [
            key
            for key, former in before.by_task.items()
            if key in placement.by_task and placement.by_task[key][0].node != former[0].node
        ]
        displaced = [
            key for key in before.by_task if before.by_task[key][0].node not in fog.by_name
        ]
        fragments = sum(len(job.tasks) for job in self._jobs)
        self.samples.append(
            Sample(
                at_h=at_s / _HOUR_S,
                nodes=len(fog.nodes),
                latency_p50_ms=weighted_percentile(known, [1.0] * len(known), 0.5),
                latency_p90_ms=weighted_percentile(known, [1.0] * len(known), 0.9),
                power_w=_power_w(self._jobs, placement, fog),
                cost_per_hour=sum(outcome.costs[job] for job in sorted(outcome.costs)),
                bytes_per_s=_bytes_per_s(self._jobs, placement, fog),
                quality=_quality(self._jobs, placement),
                refused=fragments - len(placement.by_task),
                migrations=len(set(moved) - set(displaced)),
                displaced=len(displaced),
            )
        )

    def totals(self) -> Totals:
        """Return the metrics of all samples."""
        hours, samples = self._durations_h, self.samples

        def summed(name: str) -> float:
            values = [float(getattr(sample, name)) for sample in samples]
            return sum(value * span for value, span in zip(values, hours, strict=True))

        return Totals(
            latency_p50_ms=weighted_percentile(self._latencies, self._weights, 0.5),
            latency_p90_ms=weighted_percentile(self._latencies, self._weights, 0.9),
            energy_wh=summed("power_w"),
            cost=summed("cost_per_hour"),
            quality=summed("quality") / max(sum(hours), 1e-9),
            gigabytes=summed("bytes_per_s") * _HOUR_S / 1e9,
            refused_fragment_hours=summed("refused"),
            reachable_job_hours=sum(self._weights),
            unreachable_job_hours=self._unreachable_h,
            migrations=sum(sample.migrations for sample in samples),
            displaced=sum(sample.displaced for sample in samples),
            decisions=len(samples),
            failures=self._failures,
        )


def weighted_percentile(values: Sequence[float], weights: Sequence[float], share: float) -> float:
    """Return the least value that, with all lower values, has ``share`` of the weight; 0 if none.

    >>> weighted_percentile([30.0, 10.0, 20.0], [1.0, 1.0, 2.0], 0.5)
    20.0
    """
    if not values:
        return 0.0
    order = np.argsort(values, kind="stable")
    below = np.cumsum(np.asarray(weights)[order])
    index = int(np.searchsorted(below, share * below[-1] * (1 - 1e-12)))
    return float(np.asarray(values)[order][index])


def used_cores(jobs: Sequence[Job], placement: Placement) -> dict[str, float]:
    """Return node -> the cores that placed fragments and their checks need."""
    used: dict[str, float] = {}
    for job in jobs:
        for task in job.tasks:
            for at in placement.by_task.get((job.id, task.id), ()):
                cores = at.share * (task.cores + at.checked * task.check_cores)
                used[at.node] = used.get(at.node, 0.0) + cores
    return used


def _power_w(jobs: Sequence[Job], placement: Placement, fog: Fog) -> float:
    total = 0.0
    for name, cores in sorted(used_cores(jobs, placement).items()):
        node = fog.by_name[name]
        if node.power is not None:
            total += (node.power.full_w - node.power.idle_w) * cores / node.cores
    return total


def _bytes_per_s(jobs: Sequence[Job], placement: Placement, fog: Fog) -> float:
    """Return the bytes per second between sites: panes, and points that are read elsewhere."""
    total = 0.0
    for job in jobs:
        for task in job.tasks:
            for at in placement.by_task.get((job.id, task.id), ()):
                if task.pinned is not None and fog.site_of(at.node) != task.pinned:
                    total += task.points_per_s * at.share * POINT_BYTES
        for stream in job.streams:
            for source in placement.by_task.get((job.id, stream.source), ()):
                for target in placement.by_task.get((job.id, stream.target), ()):
                    if fog.site_of(source.node) != fog.site_of(target.node):
                        total += stream.bytes_per_s * source.share * target.share
    return total


def _quality(jobs: Sequence[Job], placement: Placement) -> float:
    points = checked = 0.0
    for job in jobs:
        for task in job.tasks:
            points += task.points_per_s
            for at in placement.by_task.get((job.id, task.id), ()):
                checked += task.points_per_s * at.share * at.checked
    return checked / points if points else 0.0
