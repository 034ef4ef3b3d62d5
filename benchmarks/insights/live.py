"""Benchmark of many insights over live points: cores, delays, memory, and micro-batch times."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from analytics.client.worker import WorkerClient
from analytics.plan.status import FragmentStatus
from benchmarks.insights.delays import ResultDelays
from benchmarks.insights.services import (
    ProcessMeter,
    ProcessUsage,
    groups_of,
    storage,
    worker,
)
from benchmarks.insights.workload import fragment, send_points
from benchmarks.report import Figure
from benchmarks.storage.storage_site import StorageSite
from mistbow.client.agent import AgentClient
from mistbow.clock import system_clock
from tests.support.conditions import eventually

RATE = 5000
WORKER = ("worker", "jvm", "python")
_SETTLE_S = 20


@dataclass(frozen=True)
class LiveMeasurement:
    """The result of a measurement that took ``seconds``.

    ``delays``: ms. ``usage``: process group -> resource usage. ``before``, ``after``: the status of
    the fragment; None: the measurement has no fragment.
    """

    seconds: float
    delays: npt.NDArray[np.int64]
    usage: Mapping[str, ProcessUsage]
    before: FragmentStatus | None = None
    after: FragmentStatus | None = None

    def percentile(self, percent: float) -> float:
        """Return a percentile (0 to 100) of the delays, in ms."""
        assert len(self.delays), "no result came in time: is the machine busy?"
        return float(np.percentile(self.delays, percent))

    def cores(self, *groups: str) -> float:
        """Return the average number of cores that some process groups used together."""
        return sum(self.usage[group].cores for group in groups)

    def memory(self, *groups: str) -> float:
        """Return the sum of the maximum memory (MB) of some process groups."""
        return sum(self.usage[group].memory for group in groups)


def measure(
    delays: ResultDelays,
    site: StorageSite,
    worker_pid: int,
    seconds: float,
    status: Callable[[], FragmentStatus] | None = None,
) -> LiveMeasurement:
    """Measure the delays of results, and the resource usage of processes, for some seconds.

    ``status``: returns the status of the measured fragment.
    """
    meter = ProcessMeter(groups_of(site, worker_pid))
    before = status() if status else None
    began = time.monotonic()
    with meter.running():
        time.sleep(seconds)
    took = time.monotonic() - began
    usage = {name: meter.usage(name, took) for name in ("agent", "ignite", *WORKER)}
    return LiveMeasurement(took, delays.since(began), usage, before, status() if status else None)


def measure_plan(home: Path, insights: int, seconds: float) -> LiveMeasurement:
    """Measure a given number of insights that run as one plan on one worker."""
    with storage(home) as site, worker(home, site.url) as running:
        agent, client = AgentClient(site.url), WorkerClient(running.url)
        with send_points(agent, insights, RATE):
            fragment_spec = fragment(insights, system_clock())
            client.run(fragment_spec)
            delays = ResultDelays(agent, fragment_spec.target.stream)
            eventually(
                lambda: client.show(fragment_spec.id).state == "running",
                timeout=120,
                what="the fragment runs",
            )
            time.sleep(_SETTLE_S)
            found = measure(
                delays, site, running.pid, seconds, lambda: client.show(fragment_spec.id)
            )
        client.stop(fragment_spec.id)
    return found


def figures(name: str, insights: int, found: LiveMeasurement) -> list[Figure]:
    """Return the figures of a measurement, with goals that depend on the number of insights."""
    p95 = {100: 1000.0, 500: 1500.0}.get(insights)
    cores = 1.0 if insights == 100 else None
    return [
        Figure(f"{name}: delay, p50", "ms", [found.percentile(50)]),
        Figure(f"{name}: delay, p95", "ms", [found.percentile(95)], at_most=p95),
        Figure(f"{name}: worker", "cores", [found.cores(*WORKER)], at_most=cores),
        Figure(f"{name}: agent", "cores", [found.cores("agent")]),
        Figure(f"{name}: Ignite", "cores", [found.cores("ignite")]),
        Figure(f"{name}: worker's memory at most", "MB", [found.memory(*WORKER)]),
        Figure(f"{name}: agent's memory at most", "MB", [found.memory("agent")]),
        Figure(f"{name}: results", "1/s", [len(found.delays) / found.seconds]),
    ]


def profile(name: str, found: LiveMeasurement) -> list[Figure]:
    """Return figures of micro-batches (time per phase) and of the worker's processes (cores)."""
    assert found.before is not None
    assert found.after is not None
    batches = found.after.batches - found.before.batches
    before = found.before.spent_ms
    return [
        Figure(f"{name}: micro-batches", "1/s", [batches / found.seconds]),
        *(
            Figure(
                f"{name}, a micro-batch: {phase}",
                "ms",
                [(spent - before.get(phase, 0)) / max(batches, 1)],
            )
            for phase, spent in sorted(found.after.spent_ms.items())
        ),
        Figure(f"{name}: Spark's JVM", "cores", [found.cores("jvm")]),
        Figure(f"{name}: Spark's Python processes", "cores", [found.cores("python")]),
        Figure(f"{name}: the worker itself", "cores", [found.cores("worker")]),
    ]
