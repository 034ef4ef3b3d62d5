"""Benchmark of the times of recovery: from a fault to the next result, and the pause in results.

``python -m benchmarks.recovery.run TRIALS [FAULT …]`` injects the named faults only.
"""

import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import psutil
from rich.console import Console

from analytics.client.enabler import EnablerClient
from benchmarks.recovery.fog import RecoveryFog, points, running_fog
from benchmarks.report import Figure, Report
from mistbow.clock import system_clock
from mistbow.errors import MistbowError
from tests.support.conditions import eventually

_TRIALS = 5
_MAX_S = 90.0
_CALM_S = 3.0
_CUT_S = 20.0
_POLL_S = 0.1
_AVERAGE = "{name} = COMPUTE AVG(heat, 5 SECONDS){condition} EVERY 1 SECOND"
_CONDITIONS = {
    "everywhere": "",
    "shared": ' BY entityID WHEN site == "edge1"',
    "alone": ' BY entityID WHEN site == "edge2"',
}
"""Insight -> condition; ``edge1`` has two workers, ``edge2`` has one."""


@dataclass
class Trial:
    """One fault; times in s.

    ``next_s``: from the fault to the first new result. ``pause_s``: the longest time between two
    new ticks. ``complete_s``: from the fault to the first result that lacks no site.
    """

    next_s: float
    pause_s: float
    complete_s: float


@dataclass(frozen=True)
class Fault:
    """A fault, the insight that it stops, and its ``end``; None: the fault ends by itself."""

    name: str
    insight: str
    inject: Callable[[RecoveryFog], None]
    end: Callable[[RecoveryFog], None] | None = None


def run(names: tuple[str, ...] = (), trials: int = _TRIALS) -> Report:
    """Inject each fault some times, and measure the results of the insight that it affects."""
    figures: list[Figure] = []
    chosen = [fault for fault in FAULTS if not names or fault.name in names]
    insights = {fault.insight for fault in chosen}
    workers = {"edge1": "edge1", "edge2": "edge2"}
    workers |= {"cloud": "cloud"} if "everywhere" in insights else {}
    workers |= {"edge1-b": "edge1"} if "shared" in insights else {}
    queries = "; ".join(
        _AVERAGE.format(name=name, condition=_CONDITIONS[name]) for name in sorted(insights)
    )
    with (
        tempfile.TemporaryDirectory(prefix="mistbow-recovery-") as folder,
        running_fog(Path(folder), workers) as fog,
        points(fog),
        fog.enabler() as client,
    ):
        deployment = client.submit(queries, name="recovery").deployment_id
        for insight in insights:
            watch = _Watch(client, deployment, insight)
            eventually(watch.is_complete, timeout=240, what=f"results of {insight}")
        for fault in chosen:
            measured = [
                _measure(fog, _Watch(client, deployment, fault.insight), fault)
                for _ in range(trials)
            ]
            for what in ("next_s", "pause_s", "complete_s"):
                label = {"next_s": "to the next result", "pause_s": "longest pause",
                         "complete_s": "to the first complete result"}[what]  # fmt: skip
                runs = [getattr(trial, what) for trial in measured]
                figures.append(Figure(f"{fault.name}: {label}", "s", runs))
    return Report(
        "Recovery",
        f"Three sites in network namespaces on one machine, 25 points/s each, insights EVERY 1 "
        f"SECOND, {trials} trials each.",
        figures,
    )


class _Watch:
    """The newest result of an insight, as the enabler answers it."""

    def __init__(self, client: EnablerClient, deployment: str, insight: str) -> None:
        self._client = client
        self._deployment = deployment
        self._insight = insight

    def newest(self) -> tuple[int, bool]:
        """Return (newest tick in ms, whether it lacks no site); (0, False): no result."""
        try:
            rows = self._client.results(self._deployment, insight=self._insight, limit=1).results
        except MistbowError:
            return 0, False
        return (rows[-1].ts, not rows[-1].missing) if rows else (0, False)

    def is_complete(self) -> bool:
        """Return whether results are up to date and lack no site."""
        tick, is_complete = self.newest()
        return is_complete and system_clock() - tick < 6000


def _measure(fog: RecoveryFog, watch: _Watch, fault: Fault) -> Trial:
    # A worker that was killed has no session before it announces itself.
    eventually(fog.has_all_workers, timeout=240, what="all workers are back")
    eventually(watch.is_complete, timeout=240, what="calm before the next fault")
    time.sleep(_CALM_S)
    eventually(watch.is_complete, timeout=240, what="calm before the next fault")
    tick, _ = watch.newest()
    seen = began = time.monotonic()
    at = system_clock()
    fault.inject(fog)
    next_s = complete_s = pause_s = 0.0
    end = fault.end
    while time.monotonic() - began < _MAX_S and not (next_s and complete_s and end is None):
        newest, is_complete = watch.newest()
        now = time.monotonic()
        if newest > tick:
            pause_s, seen, tick = max(pause_s, now - seen), now, newest
            if newest > at + 1000:
                next_s = next_s or now - began
                if is_complete:
                    complete_s = complete_s or now - began
        if end is not None and now - began > _CUT_S:
            end(fog)
            end, complete_s = None, 0.0
        time.sleep(_POLL_S)
    print(f"{fault.name}: {next_s:.1f} s, {pause_s:.1f} s, {complete_s:.1f} s", flush=True)
    return Trial(next_s or _MAX_S, max(pause_s, time.monotonic() - seen), complete_s or _MAX_S)


def _kill(*processes: psutil.Process) -> None:
    for process in processes:
        process.kill()


def _kill_worker_of(site: str) -> Callable[[RecoveryFog], None]:
    """Return a function that kills the worker that runs the insight over a site's points."""

    def kill(fog: RecoveryFog) -> None:
        with fog.enabler() as client:
            found = {
                fragment.node
                for deployment in client.list()
                for fragment in client.show(deployment.deployment_id).placement
                if fragment.fragment.startswith(f"site-{site}.")
            }
        [node] = found
        _kill(fog.process(f"worker-{node}"))

    return kill


FAULTS = (
    Fault(
        "worker with a second one at its site",
        "shared",
        _kill_worker_of("edge1"),
    ),
    Fault("worker alone at its site", "alone", _kill_worker_of("edge2")),
    Fault(
        "storage of an edge",
        "everywhere",
        lambda fog: _kill(*fog.storage("edge2").values()),
    ),
    Fault("Ignite of an edge", "everywhere", lambda fog: _kill(fog.storage("edge2")["ignite"])),
    Fault("agent of an edge", "everywhere", lambda fog: _kill(fog.storage("edge2")["agent"])),
    Fault("cut link", "everywhere", lambda fog: fog.cut("edge2"), lambda fog: fog.heal("edge2")),
    Fault("enabler", "everywhere", lambda fog: _kill(fog.process("enabler"))),
)


if __name__ == "__main__":
    Console().print(run(tuple(sys.argv[2:]), int(sys.argv[1])).table())
