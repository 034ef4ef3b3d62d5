"""Benchmark of an agent's memory and CPU under a steady rate of points."""

import os
import statistics
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from benchmarks.report import Figure
from benchmarks.storage.http_clients import run_clients
from benchmarks.storage.storage_site import StorageSite, bodies, running_site

_MB = 2**20
_SERIES = 1000
_BUSY_RATE = 20_000
_BUSY_S = 600
_BUSY_BODY = 500
_SMALL_RATE = 1000
_SMALL_S = 120
_SMALL_BODY = 100
_LOOK_S = 5.0


def figures(home: Path) -> list[Figure]:
    """Measure memory at 20,000 points/s for ten minutes, then a one-core node at 1,000 points/s."""
    with running_site(home / "busy") as running:
        busy = _memory_under_load(running, _BUSY_RATE, _BUSY_BODY, _BUSY_S)
    with _on_one_core(home / "small") as running:
        _memory_under_load(running, _SMALL_RATE, _SMALL_BODY, 30)
        cpu = _cpu_s(running)
        began = time.perf_counter()
        small = _memory_under_load(running, _SMALL_RATE, _SMALL_BODY, _SMALL_S)
        share = 100 * (_cpu_s(running) - cpu) / (time.perf_counter() - began)
    third = len(busy) // 3
    agents = [agent for agent, _ in busy]
    growth = statistics.mean(agents[-third:]) - statistics.mean(agents[third : 2 * third])
    minutes = _BUSY_S // 60
    return [
        Figure(
            f"agent's memory at most, {_BUSY_RATE:,} points/s for {minutes} minutes",
            "MB",
            [max(agents)],
            at_most=300,
        ),
        Figure("the same, last third against the middle one", "MB", [growth], at_most=10),
        Figure("Ignite's memory beside it", "MB", [ignite for _, ignite in busy]),
        Figure(
            f"agent and Ignite on one core, {_SMALL_RATE:,} points/s, memory at most",
            "MB",
            [max(sum(each) for each in small)],
            at_most=450,
        ),
        Figure("the same, of the core", "%", [share], at_most=25),
    ]


def _memory_under_load(
    running: StorageSite, rate: int, points: int, seconds: float
) -> Sequence[tuple[float, float]]:
    """Send points at a rate; return samples of (agent's memory, Ignite's memory) in MB."""
    memory: list[tuple[float, float]] = []
    requests = bodies(running.url, 0, points, _SERIES, 50)
    began = time.perf_counter()
    pace = points / rate

    def request(_: int, number: int) -> bytes:
        now = time.perf_counter() - began
        if now > len(memory) * _LOOK_S:
            memory.append(_memory(running))
        if number % 50 == 0:
            requests[:] = bodies(running.url, 0, points, _SERIES, 50)
        # The only client may block: it waits for the time of its next request.
        time.sleep(max(0.0, number * pace - (time.perf_counter() - began)))
        return requests[number % 50]

    times = run_clients(running.url, request, clients=1, each=int(seconds / pace))
    assert times.seconds < 1.05 * seconds + 1, "the agent is slower than the rate"
    return memory


@contextmanager
def _on_one_core(home: Path) -> Iterator[StorageSite]:
    """Run a site on the first core inside the ``with`` block; this process uses the other cores."""
    cores = os.sched_getaffinity(0)
    first = {min(cores)}
    os.sched_setaffinity(0, first)
    try:
        with running_site(home) as running:
            os.sched_setaffinity(0, cores - first or cores)
            yield running
    finally:
        os.sched_setaffinity(0, cores)


def _memory(running: StorageSite) -> tuple[float, float]:
    agent, ignite = (each.memory_full_info().pss / _MB for each in running.processes)
    return agent, ignite


def _cpu_s(running: StorageSite) -> float:
    return sum(sum(each.cpu_times()[:2]) for each in running.processes)
