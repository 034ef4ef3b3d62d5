"""Many insights over points of now: cores, delays, memory, and where the time goes."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from benchmarks.insights.delays import Delays
from benchmarks.insights.services import Meter, Storage, Usage, groups_of, storage, worker
from benchmarks.insights.workload import feeding, fragment
from benchmarks.report import Figure
from mistbow.client.agent import AgentClient
from mistbow.client.worker import WorkerClient
from mistbow.clock import system_clock
from mistbow.plan.status import FragmentStatus
from tests.support.waiting import eventually

RATE = 5000
WORKER = ("worker", "jvm", "python")
_SETTLE_S = 20


@dataclass(frozen=True)
class Measured:
    """What was seen in ``seconds``: delays in ms, and the use of each group of processes."""

    seconds: float
    delays: npt.NDArray[np.int64]
    usage: Mapping[str, Usage]
    before: FragmentStatus | None = None
    after: FragmentStatus | None = None

    def percentile(self, percent: float) -> float:
        """Return a percentile of the delays, in ms."""
        assert len(self.delays), "no result came in time: is the machine busy?"
        return float(np.percentile(self.delays, percent))

    def cores(self, *groups: str) -> float:
        """Return how many cores some groups took."""
        return sum(self.usage[group].cores for group in groups)

    def memory(self, *groups: str) -> float:
        """Return the sum of the most (MB) that each of some groups took."""
        return sum(self.usage[group].memory for group in groups)


def measure(
    delays: Delays,
    site: Storage,
    worker_pid: int,
    seconds: float,
    status: Callable[[], FragmentStatus] | None = None,
) -> Measured:
    """Look on for so many seconds."""
    meter = Meter(groups_of(site, worker_pid))
    before = status() if status else None
    began = time.monotonic()
    with meter.running():
        time.sleep(seconds)
    took = time.monotonic() - began
    usage = {name: meter.usage(name, took) for name in ("agent", "ignite", *WORKER)}
    return Measured(took, delays.since(began), usage, before, status() if status else None)


def merged(home: Path, insights: int, seconds: float) -> Measured:
    """Measure so many insights as one plan on one worker."""
    with storage(home) as site, worker(home, site.url) as running:
        agent, client = AgentClient(site.url), WorkerClient(running.url)
        with feeding(agent, insights, RATE):
            wanted = fragment(insights, system_clock())
            client.run(wanted)
            delays = Delays(agent, wanted.target.stream)
            eventually(
                lambda: client.show(wanted.id).state == "running", timeout=120, what="it runs"
            )
            time.sleep(_SETTLE_S)
            found = measure(delays, site, running.pid, seconds, lambda: client.show(wanted.id))
        client.stop(wanted.id)
    return found


def figures(name: str, insights: int, found: Measured) -> list[Figure]:
    """Return what was measured; the goals are those of so many insights."""
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


def profile(name: str, found: Measured) -> list[Figure]:
    """Return where the time of micro-batches goes, and who takes the cores."""
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
