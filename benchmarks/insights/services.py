"""Runs an agent and a worker as processes, and measures their usage of cores and memory."""

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

from benchmarks.insights.workload import SITE
from benchmarks.storage.storage_site import StorageSite, running_site
from tests.support.services import Service, service

_MB = 2**20
_INTERVAL_S = 2.0


def storage(home: Path) -> AbstractContextManager[StorageSite]:
    """Run a site with default settings, with data on disk, inside the ``with`` block."""
    return running_site(home, site=SITE, collect_routes=False)


@contextmanager
def worker(home: Path, agent_url: str) -> Iterator[Service]:
    """Run an analytics worker for the agent at ``agent_url`` inside the ``with`` block."""
    with service("analytics_worker", "worker_port", home=home, agent_url=agent_url) as running:
        yield running


@dataclass(frozen=True)
class ProcessUsage:
    """The resource usage of a process group: average cores, and maximum memory (MB).

    The memory is the proportional set size (PSS) of the processes. ``memories``: the memory at each
    measurement.
    """

    cores: float
    memory: float
    memories: Sequence[float] = ()


class ProcessMeter:
    """Measures the cores and memory of process groups periodically inside a ``with`` block.

    ``groups``: name -> a function that returns the processes. Each measurement lists the processes
    again, because Spark starts processes at any time.
    """

    def __init__(self, groups: Mapping[str, Callable[[], list[psutil.Process]]]) -> None:
        self._groups = groups
        self._cpu: dict[str, dict[int, tuple[float, float]]] = {name: {} for name in groups}
        self._memory: dict[str, list[float]] = {name: [] for name in groups}
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="meter", daemon=True)
        self._first = True

    @contextmanager
    def running(self) -> Iterator[None]:
        """Measure inside the ``with`` block."""
        self._measure()
        self._thread.start()
        try:
            yield
        finally:
            self._stopped.set()
            self._thread.join()
            self._measure()

    def usage(self, name: str, seconds: float) -> ProcessUsage:
        """Return the resource usage of a process group, measured for ``seconds``."""
        spent = sum(last - first for first, last in self._cpu[name].values())
        memories = self._memory[name]
        return ProcessUsage(spent / seconds, max(memories), memories)

    def _run(self) -> None:
        while not self._stopped.wait(_INTERVAL_S):
            self._measure()

    def _measure(self) -> None:
        for name, processes in self._groups.items():
            memory = 0.0
            for process in processes():
                try:
                    spent = sum(process.cpu_times()[:2])
                    memory += process.memory_full_info().pss / _MB
                except psutil.Error:  # the process has ended
                    continue
                # A process that started after the first measurement began at 0.
                first, _ = self._cpu[name].get(process.pid, (spent if self._first else 0.0, 0.0))
                self._cpu[name][process.pid] = first, spent
            self._memory[name].append(memory)
        self._first = False


def groups_of(site: StorageSite, worker_pid: int) -> dict[str, Callable[[], list[psutil.Process]]]:
    """Return the process groups ``agent``, ``ignite``, ``worker``, ``jvm`` and ``python`` (of
    Spark).

    The result maps the name of a group to a function that returns the processes.
    """
    root = psutil.Process(worker_pid)

    def below(java: bool) -> Callable[[], list[psutil.Process]]:
        def found() -> list[psutil.Process]:
            return [each for each in root.children(recursive=True) if _is_java(each) is java]

        return found

    return {
        "agent": lambda: [site.agent],
        "ignite": lambda: [site.ignite],
        "worker": lambda: [root],
        "jvm": below(java=True),
        "python": below(java=False),
    }


def _is_java(process: psutil.Process) -> bool | None:
    try:
        return process.name() == "java"
    except psutil.Error:
        return None
