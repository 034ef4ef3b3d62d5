"""An agent and a worker as processes, and what these take."""

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

from benchmarks.insights.workload import SITE
from mistbow.ignite.server import IgniteServer
from tests.support.services import Service, service, storage_agent

_MB = 2**20
_LOOK_S = 2.0


@dataclass(frozen=True)
class Storage:
    """A site's agent and its Ignite."""

    home: Path
    url: str
    agent: psutil.Process
    ignite: psutil.Process


@contextmanager
def storage(home: Path) -> Iterator[Storage]:
    """Run a site with the settings that it has by default, on disk."""
    with (
        IgniteServer(home, durability="fsync") as ignite,
        storage_agent(home, ignite.port, site=SITE, collect_routes=False) as agent,
    ):
        yield Storage(home, agent.url, psutil.Process(agent.pid), psutil.Process(ignite.pid))


@contextmanager
def worker(home: Path, agent_url: str) -> Iterator[Service]:
    """Run an analytics worker."""
    with service("analytics_worker", "worker_port", home=home, agent_url=agent_url) as running:
        yield running


@dataclass(frozen=True)
class Usage:
    """What some processes took: cores on average, memory at most (MB, each its own share)."""

    cores: float
    memory: float
    memories: Sequence[float] = ()


class Meter:
    """Looks at groups of processes, now and then, while a ``with`` lasts.

    ``groups`` are asked anew at each look, for Spark starts processes as it goes.
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
        """Look until the end."""
        self._look()
        self._thread.start()
        try:
            yield
        finally:
            self._stopped.set()
            self._thread.join()
            self._look()

    def usage(self, name: str, seconds: float) -> Usage:
        """Return what a group took in all, over so many seconds."""
        spent = sum(last - first for first, last in self._cpu[name].values())
        memories = self._memory[name]
        return Usage(spent / seconds, max(memories), memories)

    def _run(self) -> None:
        while not self._stopped.wait(_LOOK_S):
            self._look()

    def _look(self) -> None:
        for name, processes in self._groups.items():
            memory = 0.0
            for process in processes():
                try:
                    spent = sum(process.cpu_times()[:2])
                    memory += process.memory_full_info().pss / _MB
                except psutil.Error:  # it has ended
                    continue
                # One that is new since the first look began at nothing.
                first, _ = self._cpu[name].get(process.pid, (spent if self._first else 0.0, 0.0))
                self._cpu[name][process.pid] = first, spent
            self._memory[name].append(memory)
        self._first = False


def groups_of(site: Storage, worker_pid: int) -> dict[str, Callable[[], list[psutil.Process]]]:
    """Return the processes by what they are: agent, ignite, worker, jvm and python (Spark's)."""
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
