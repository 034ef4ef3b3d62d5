"""A fog of three sites in network namespaces: the cloud with the enabler, and two edges."""

import contextlib
import os
import sys
import threading
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import psutil

from analytics.client.enabler import EnablerClient
from fog_emulation.backend import start_fog
from fog_emulation.namespace_backend import NamespaceBackend
from fog_emulation.topology import Direction, EmulatedNode, FogPlan, Shape, Way
from ignite_server.settings import IgniteSettings
from mistbow.client.agent import AgentClient
from mistbow.client.agent_model import Point
from mistbow.clock import system_clock
from mistbow.errors import MistbowError
from suite.child import Child
from suite.child_logs import StdoutLog
from suite.services import PACKAGES
from suite.supervisor import Supervisor
from tests.support.conditions import eventually
from tests.support.threads import in_threads

SITES = ("cloud", "edge1", "edge2")
_NET = "net"
TOKEN = "of-the-benchmark"  # noqa: S105 - of this fog only
_WAYS: tuple[Way, ...] = ("up", "down")
_POINTS_PERIOD_S = 0.2
_ENTITIES = 5


@dataclass(frozen=True)
class RecoveryFog:
    """The running fog; the clients are in the network of the cloud.

    ``workers``: the names of its workers.
    """

    backend: NamespaceBackend
    supervisor: Supervisor
    workers: Collection[str]

    @contextmanager
    def enabler(self) -> Iterator[EnablerClient]:
        """Yield a client of the enabler; the calling thread is at the cloud meanwhile."""
        with self.backend.inside("cloud"):
            client = EnablerClient("http://127.0.0.1:8000", TOKEN)
            try:
                yield client
            finally:
                client.close()

    @contextmanager
    def agent(self, site: str) -> Iterator[AgentClient]:
        """Yield a client of a site's agent; the calling thread is at the site meanwhile."""
        with self.backend.inside(site):
            client = AgentClient("http://127.0.0.1:8300", TOKEN)
            try:
                yield client
            finally:
                client.close()

    def has_all_workers(self) -> bool:
        """Return whether all workers announce themselves, and none is suspected."""
        with self.agent("cloud") as agent:
            try:
                sites = agent.fabric().sites
            except MistbowError:
                return False
        alive = {each.name for site in sites for each in site.workers if not each.suspected}
        return alive >= set(self.workers)

    def process(self, name: str) -> psutil.Process:
        """Return a process that the benchmark supervises, such as ``enabler``."""
        pid = self.supervisor.pids[name]
        assert pid is not None, f"{name} does not run"
        return psutil.Process(pid)

    def storage(self, site: str) -> dict[str, psutil.Process]:
        """Return the processes of a site's storage: ``ignite`` and ``agent``."""
        found = {}
        for child in self.process(f"storage-{site}").children():
            words = " ".join(child.cmdline())
            if "CommandLineStartup" in words:
                found["ignite"] = child
            elif words.endswith("-m storage_agent"):
                found["agent"] = child
        return found

    def cut(self, site: str) -> None:
        """Lose all packets between a site and the other sites."""
        self._shape(site, Shape(loss=1.0))

    def heal(self, site: str) -> None:
        """Restore the link of a site."""
        self._shape(site, Shape())

    def _shape(self, site: str, shape: Shape) -> None:
        for way in _WAYS:
            self.backend.connect(Direction(_NET, site, way, shape))


@contextmanager
def running_fog(home: Path, workers: Mapping[str, str]) -> Iterator[RecoveryFog]:
    """Run the fog within the ``with``: a storage at each site, and workers: name -> site."""
    nodes = tuple(EmulatedNode(name, name, "site", 1.0, 2**30, (_NET,)) for name in SITES)
    clear = tuple(Direction(_NET, name, way, Shape()) for name in SITES for way in _WAYS)
    backend = NamespaceBackend(f"recovery-{os.getpid()}", FogPlan((_NET,), nodes, clear))
    start_fog(backend, lenient=True)
    try:
        supervisor = Supervisor(_children(backend, home, workers), StdoutLog([TOKEN]))
        try:
            supervisor.start(threading.Event())
            fog = RecoveryFog(backend, supervisor, tuple(workers))
            eventually(fog.has_all_workers, timeout=240, what="all workers run")
            yield fog
        finally:
            supervisor.stop()
    finally:
        backend.down()


@contextmanager
def points(fog: RecoveryFog) -> Iterator[None]:
    """Send points of the metric ``heat`` to all sites within the ``with``, and retry if needed."""
    with in_threads(*(partial(_send, fog, site) for site in SITES)):
        yield


def _send(fog: RecoveryFog, site: str, stopped: threading.Event) -> None:
    with fog.agent(site) as agent:
        while not stopped.wait(_POINTS_PERIOD_S):
            now = system_clock()
            points = [
                Point(metric="heat", entity=f"{site}-{number}", ts=now, value=float(number))
                for number in range(_ENTITIES)
            ]
            with contextlib.suppress(MistbowError):
                agent.put(points)


def _children(backend: NamespaceBackend, home: Path, workers: Mapping[str, str]) -> list[Child]:
    children = []
    for site in SITES:
        at = backend.address(site, _NET)
        peers = "" if site == "cloud" else f"http://{backend.address('cloud', _NET)}:8300"
        env = {
            "MISTBOW_SITE": site,
            "MISTBOW_HOST": "0.0.0.0",  # noqa: S104 - in a namespace of its own
            "MISTBOW_TOKEN": TOKEN,
            "MISTBOW_AGENT_URL": f"http://{at}:8300",
            "MISTBOW_PEERS": peers,
            "MISTBOW_JARS": str(IgniteSettings().jars_folder.absolute()),
            "MISTBOW_LOG_LEVEL": "info",
        }
        children.append(_child(backend, site, "storage", env, home))
        names = [name for name in workers if workers[name] == site]
        for number, name in enumerate(names):
            port = 8100 + number
            more = {
                "MISTBOW_NODE": name,
                "MISTBOW_WORKER_PORT": str(port),
                "MISTBOW_WORKER_URL": f"http://{at}:{port}",
                "MISTBOW_SPARK_MASTER": "local[1]",
                "MISTBOW_DRIVER_MEMORY": "512m",
            }
            children.append(_child(backend, site, "worker", env | more, home, name))
    of_cloud = {"MISTBOW_AGENT_URL": f"http://{backend.address('cloud', _NET)}:8300"}
    children.append(_child(backend, "cloud", "enabler", env | of_cloud, home))
    return children


def _child(
    backend: NamespaceBackend,
    site: str,
    service: str,
    env: Mapping[str, str],
    home: Path,
    name: str = "",
) -> Child:
    full = service if service == "enabler" else f"{service}-{name or site}"
    argv = ("ip", "netns", "exec", f"mistbow-fog-{backend.name}.{site}", sys.executable)
    own = {"MISTBOW_HOME": str(home / full), "MISTBOW_NODE": site}
    module = (PACKAGES[service],) if service in PACKAGES else ("command_line.app", service)
    return Child(full, (*argv, "-m", *module), lambda: True, own | dict(env))
