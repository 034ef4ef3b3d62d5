"""Runs the experiment: starts the fog and the stores, and measures each combination."""

import os
import random
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import psutil

from benchmarks.storage.http_clients import RequestTimes
from benchmarks.storage.workloads import (
    KeyOperation,
    OperationSource,
    Workload,
    key_of,
    record_value,
)
from benchmarks.ycsb_fog.clients import run_operations
from benchmarks.ycsb_fog.mistbow_sites import MistbowSites
from benchmarks.ycsb_fog.plan import CLIENT, LINK, NETWORK, Plan, fog_plan, node_names, split
from benchmarks.ycsb_fog.redis_cluster import absent_programs, running_cluster
from benchmarks.ycsb_fog.results import RunResult
from benchmarks.ycsb_fog.target import Target
from fog_emulation.backend import start_fog
from fog_emulation.measure import measure as measure_link
from fog_emulation.namespace_backend import NamespaceBackend
from fog_emulation.topology import Direction, Shape

_PROBES = 300
_LOAD_CLIENTS = 32
_REST_S = 3.0
_TOOLS = ("ip", "tc", "iptables-restore")

Print = Callable[[str], None]


def measure(plan: Plan, show: Print) -> Iterator[RunResult]:
    """Yield the result of each run; ``show`` receives texts about the progress.

    Exits if this machine has no network namespaces; leaves out Redis if it is not installed.
    """
    if os.geteuid() != 0 or not all(map(shutil.which, _TOOLS)):
        raise SystemExit("ycsb_fog needs root, iproute2 and iptables for network namespaces")
    with tempfile.TemporaryDirectory(prefix="mistbow-ycsb-") as folder, _running_fog(plan) as fog:
        delay_ms = _delay(fog)
        show(f"a message from the clients' node to another node takes {delay_ms:.2f} ms")
        with fog.inside(CLIENT):
            for target in _targets(plan, fog, Path(folder), show):
                value = record_value(random.Random(target.nodes))
                for result in _Session(plan, target, value, delay_ms).results():
                    show(_progress(result))
                    yield result


def _progress(result: RunResult) -> str:
    case = result.case
    return (
        f"{case.nodes} nodes, {case.system}, {case.workload}, {case.operations:,} operations, run "
        f"{result.number}: {result.rate:,.0f}/s, mean {result.mean_ms:.1f} ms, p95 "
        f"{result.p95_ms:.1f} ms, busy {result.busy:.0%}; at rest {result.rest_cores:.2f} cores"
    )


@contextmanager
def _running_fog(plan: Plan) -> Iterator[NamespaceBackend]:
    backend = NamespaceBackend(f"ycsb-{os.getpid()}", fog_plan(plan.sizes[-1]))
    try:
        start_fog(backend, lenient=True)
        yield backend
    finally:
        backend.down()


def _delay(fog: NamespaceBackend) -> float:
    # Without the rate: a flood of 10 Gbit/s would only measure the delay line.
    [node] = node_names(1)
    shape = Shape(delay_ms=LINK.delay_ms)
    ways = [Direction(NETWORK, name, "up", shape) for name in (CLIENT, node)]
    return measure_link(fog, ways, NETWORK, CLIENT, node, _PROBES).found.delay_ms


def _targets(plan: Plan, fog: NamespaceBackend, home: Path, show: Print) -> Iterator[Target]:
    """Yield each target while it runs: never two stores at once."""
    if "Redis" in plan.stores:
        yield from _redis_targets(plan, fog, home, show)
    if "Mistbow" in plan.stores:
        yield from _mistbow_targets(plan, fog, home, show)


def _redis_targets(plan: Plan, fog: NamespaceBackend, home: Path, show: Print) -> Iterator[Target]:
    if absent := absent_programs():
        show(f"Redis is left out: {', '.join(absent)} is not installed (Debian: redis-server)")
        return
    for count in plan.sizes:
        for replicas in (False, True):
            with running_cluster(fog, home / "redis", count, replicas=replicas) as target:
                yield target


def _mistbow_targets(
    plan: Plan, fog: NamespaceBackend, home: Path, show: Print
) -> Iterator[Target]:
    sites = MistbowSites(fog, home)
    try:
        for count in plan.sizes:
            began = time.monotonic()
            sites.grow(count, show)
            show(f"{count} sites run after {time.monotonic() - began:.0f} s")
            yield sites.target(replicas=False)
            sites.replicate()
            yield sites.target(replicas=True)
            sites.end_replication()
    finally:
        sites.close()


@dataclass(frozen=True)
class _Session:
    """The measurement of one target; ``delay_ms``: the measured delay of a link, one way."""

    plan: Plan
    target: Target
    value: str
    delay_ms: float

    def results(self) -> Iterator[RunResult]:
        """Yield the result of each run."""
        rest_cores = _rest_cores(self.target)
        loaded = 0
        for operations in self.plan.counts:
            self._load(loaded, operations)
            loaded = operations
            for workload in self.plan.chosen:
                for number in range(1, self.plan.runs + 1):
                    yield self._result(workload, operations, number, rest_cores)

    def _load(self, loaded: int, records: int) -> None:
        """Insert the records that are not there yet."""
        inserts = [KeyOperation("insert", key_of(number)) for number in range(loaded, records)]
        self._send(inserts, _LOAD_CLIENTS)
        self.target.wait_replicas()

    def _send(self, operations: Sequence[KeyOperation], clients: int) -> RequestTimes:
        requests = [self.target.requests(each, self.value) for each in operations]
        target = self.target
        return run_operations(target.addresses, split(requests, clients), target.read_reply)

    def _result(self, workload: Workload, count: int, number: int, rest_cores: float) -> RunResult:
        # Both stores get the same operations; each run gets others.
        chance = random.Random(f"{workload.name} {count} {number}")
        source = OperationSource(workload, chance, count)
        operations = [source.next() for _ in range(count)]
        busy = _BusyShare()
        times = self._send(operations, self.plan.clients)
        share = busy.since_start()
        ended = time.perf_counter()
        self.target.wait_replicas()
        return RunResult(
            nodes=self.target.nodes,
            store=self.target.store,
            replicas=self.target.replicas,
            workload=workload.name,
            operations=count,
            number=number,
            clients=self.plan.clients,
            rate=times.rate,
            mean_ms=statistics.fmean(times.durations) * 1000,
            p95_ms=times.milliseconds(0.95),
            p99_ms=times.milliseconds(0.99),
            behind_s=time.perf_counter() - ended,
            busy=share,
            rest_cores=rest_cores,
            node_mb=_memory_mb(self.target),
            delay_ms=self.delay_ms,
            day=datetime.now(UTC).date().isoformat(),
        )


class _BusyShare:
    """Measures the share of the host's cores that all processes use."""

    def __init__(self) -> None:
        self._start = psutil.cpu_times()

    def since_start(self) -> float:
        """Return the share, from 0 to 1."""
        end = psutil.cpu_times()
        spent = {name: getattr(end, name) - getattr(self._start, name) for name in end._fields}
        # Linux counts the time of guests as time of users, too.
        total = sum(spent.values()) - spent["guest"] - spent["guest_nice"]
        return float(1 - (spent["idle"] + spent["iowait"]) / total)


def _rest_cores(target: Target) -> float:
    """Return how many cores the processes of a target use while they serve no requests."""
    before, began = _cpu_s(target), time.monotonic()
    time.sleep(_REST_S)
    return (_cpu_s(target) - before) / (time.monotonic() - began)


def _cpu_s(target: Target) -> float:
    times = [psutil.Process(pid).cpu_times() for pid in target.pids]
    return float(sum(each.user + each.system for each in times))


def _memory_mb(target: Target) -> float:
    sizes = [psutil.Process(pid).memory_full_info().pss for pid in target.pids]
    return sum(sizes) / target.nodes / 2**20
