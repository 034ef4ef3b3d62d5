"""Benchmark of the memory of a worker with 1 GB that runs four fragments.

With ``MISTBOW_IMAGE``, the worker runs in a container of that image; otherwise in a control group,
which needs root. ``python -m benchmarks.edge_worker SECONDS`` measures for another time.
"""

import os
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import psutil

from analytics.client.enabler import EnablerClient
from analytics.client.worker import WorkerClient
from benchmarks.insights.services import storage
from benchmarks.insights.workload import SITE, send_points
from benchmarks.report import Figure, Report
from ignite_server.ports import free_ports
from mistbow.client.agent import AgentClient
from mistbow.clock import utc_now
from tests.support.conditions import eventually
from tests.support.edge_insights import FRAGMENTS, INSIGHTS, LIMIT_MB
from tests.support.memory_group import MemoryGroup, group_of, memory_group
from tests.support.services import service

_SECONDS = 600.0
_SETTLE_S = 60.0
_PAUSE_S = 1.0
_SERIES_OF = 20
"""The number of insights of the workload whose four metrics are sent."""

_RATE = 1000
_MAX_LAG_MS = 3000
_MB = 2**20

_HOW = (
    "A worker with a memory limit of {limit:,} MB, without swap, {where}, on {date}. Storage and "
    "the enabler run outside of it, on the same machine. The enabler places four insights, each a "
    "fragment of its own: the mean of 10 s each second, the median of a minute every 5 s, an "
    "exponentially weighted mean every 2 s, and the mean of 10 s at each point. They read "
    "{rate:,} points/s of 40 series for {seconds:,.0f} s, after {settle:.0f} s in which they "
    "start. Used: by which the kernel decides to kill, so all memory of the group but inactive "
    "files; it includes files in memory and page tables. Processes: the proportional set size "
    "(PSS). Lag: how long the oldest missing result of a fragment has been due."
)


@dataclass(frozen=True)
class _Worker:
    """A worker under a memory limit; ``pid``: its first process."""

    url: str
    pid: int
    group: MemoryGroup


@dataclass
class _Samples:
    """What was measured each second; memory in MB, by kind of process."""

    used: list[float] = field(default_factory=list)
    lag_ms: list[float] = field(default_factory=list)
    kinds: dict[str, list[float]] = field(default_factory=dict)
    count: int = 0


def run(seconds: float = _SECONDS) -> Report:
    """Measure a worker; this takes 2 minutes more than ``seconds``."""
    with tempfile.TemporaryDirectory(prefix="mistbow-edge-") as name:
        home = Path(name)
        with (
            storage(home / "site") as site,
            _worker(home / "worker", site.url) as worker,
            service(
                "analytics_enabler", "enabler_port", home=home / "enabler", agent_url=site.url
            ) as enabler,
        ):
            idle = dict(_memory_by_kind(worker.pid))
            with send_points(AgentClient(site.url), _SERIES_OF, _RATE):
                figures = _figures(worker, EnablerClient(enabler.url), seconds)
    figures += [Figure(f"{kind}, before the first fragment", "MB", [idle[kind]]) for kind in idle]
    where = "in a container" if "MISTBOW_IMAGE" in os.environ else "in a control group"
    how = _HOW.format(
        limit=LIMIT_MB, where=where, date=f"{utc_now():%Y-%m-%d}", rate=_RATE, seconds=seconds,
        settle=_SETTLE_S,
    )  # fmt: skip
    return Report("A worker with 1 GB", how, figures)


def _figures(worker: _Worker, enabler: EnablerClient, seconds: float) -> list[Figure]:
    client = WorkerClient(worker.url)

    def running() -> int:
        return sum(status.state == "running" for status in client.list())

    began = time.monotonic()
    enabler.submit(INSIGHTS, name="edge")
    with suppress(AssertionError):  # the number that runs at the end is a figure
        eventually(lambda: running() == FRAGMENTS, timeout=180, what="four fragments run")
    started = time.monotonic() - began
    _sample(worker, client, _SETTLE_S)
    found = _sample(worker, client, seconds)
    kinds = [Figure(kind, "MB", mb) for kind, mb in sorted(found.kinds.items())]
    lags = sorted(found.lag_ms)
    return [
        Figure("used", "MB", found.used, at_most=LIMIT_MB),
        Figure("kills by the kernel", "", [worker.group.oom_kills], at_most=0),
        Figure("fragments that run at the end", "", [running()], at_least=FRAGMENTS),
        Figure("until four fragments run", "s", [started]),
        Figure("lag of a fragment, p95", "ms", [lags[int(0.95 * len(lags))]], at_most=_MAX_LAG_MS),
        *kinds,
    ]


def _sample(worker: _Worker, client: WorkerClient, seconds: float) -> _Samples:
    """Measure each second, for some seconds."""
    found, end = _Samples(), time.monotonic() + seconds
    while time.monotonic() < end:
        found.used.append(worker.group.working_set_mb)
        found.lag_ms += [status.lag_ms for status in client.list()]
        # The kernel visits all pages for this.
        if found.count % 10 == 0:
            for kind, megabytes in _memory_by_kind(worker.pid).items():
                found.kinds.setdefault(kind, []).append(megabytes)
        found.count += 1
        time.sleep(_PAUSE_S)
    return found


def _memory_by_kind(pid: int) -> Mapping[str, float]:
    """Return kind of process -> PSS (MB), of a process and those below it."""
    kinds: dict[str, float] = defaultdict(float)
    root = psutil.Process(pid)
    for process in (root, *root.children(recursive=True)):
        try:
            kinds[_kind(process)] += process.memory_full_info().pss / _MB
        except psutil.Error:  # the process has ended
            continue
    kinds["all processes"] = sum(kinds.values())
    return kinds


def _kind(process: psutil.Process) -> str:
    words = process.cmdline()
    if process.name() == "java":
        return "Java"
    if any("fork_server.server" in word for word in words):
        return "Spark's Python processes"
    if process.name() == "sh":  # waits for one of Spark's Python processes
        return "shells"
    return "the worker's process"


@contextmanager
def _worker(home: Path, agent_url: str) -> Iterator[_Worker]:
    image = os.environ.get("MISTBOW_IMAGE")
    if image is not None:
        with _container(image, agent_url) as worker:
            yield worker
        return
    with (
        memory_group(LIMIT_MB) as group,
        service(
            "analytics_worker", "worker_port", home=home, agent_url=agent_url, prefix=group.prefix
        ) as running,
    ):
        yield _Worker(running.url, running.pid, group)


@contextmanager
def _container(image: str, agent_url: str) -> Iterator[_Worker]:
    """Run a worker as ``docker-compose.yml`` does, but in the host's network."""
    (port,) = free_ports(1)
    url, limit = f"http://127.0.0.1:{port}", f"{LIMIT_MB}m"
    settings = {
        "HOST": "127.0.0.1", "WORKER_PORT": port, "WORKER_URL": url, "AGENT_URL": agent_url,
        "NODE": SITE,
    }  # fmt: skip
    command = [
        "docker", "run", "--detach", "--rm", "--init", "--read-only", "--network", "host",
        "--memory", limit, "--memory-swap", limit, "--shm-size", "256m",
        "--tmpfs", "/tmp:mode=1777,size=128m,exec",  # noqa: S108 - in the container
        "--tmpfs", "/var/lib/mistbow:uid=10001,gid=10001,mode=0700,size=32m",
        *(f"--env=MISTBOW_{name}={value}" for name, value in settings.items()),
        image, "worker",
    ]  # fmt: skip
    name = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
    try:
        inspect = ["docker", "inspect", "--format", "{{.State.Pid}}", name]
        found = subprocess.run(inspect, check=True, stdout=subprocess.PIPE, text=True).stdout
        ready = lambda: httpx.get(f"{url}/readyz").is_success  # noqa: E731
        eventually(ready, timeout=180, what="the worker is ready")
        yield _Worker(url, int(found), group_of(int(found)))
    finally:
        subprocess.run(["docker", "rm", "--force", name], check=True, stdout=subprocess.DEVNULL)


if __name__ == "__main__":
    print(run(float(sys.argv[1])).markdown())
