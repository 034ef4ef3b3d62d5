"""Four sites in network namespaces, with all services as processes that a supervisor restarts."""

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Self
from uuid import uuid4

import httpx
import psutil
from rich.console import Console

from analytics.client.enabler import EnablerClient
from fog_emulation.namespace_backend import NamespaceBackend
from fog_emulation.topology import Direction, EmulatedNode, FogPlan, Shape, Way
from ignite_server.cluster import make_ready
from ignite_server.config import IgniteConfig
from ignite_server.jars import ensure_jars
from mistbow.client.agent import AgentClient
from mistbow.java import find_java
from suite.child import Child, ManagedChild
from suite.child_logs import FileLog
from suite.services import PACKAGES
from suite.settings import RunSettings
from suite.watchdog import start_watchdog
from tests.support.conditions import eventually

SITES = ("cloud", "north", "south", "east")
CENTRE = "cloud"
"""The site of the enabler, which also stores the results over all sites."""

ROLES = ("ignite", "agent", "worker")
PORTS = {"agent": 8300, "worker": 8100, "enabler": 8000}
TOKEN = "of-the-chaos-fog"  # noqa: S105 - of this test only

_NETWORK = "wide"
_WAYS: tuple[Way, ...] = ("up", "down")
_IGNITE_PORTS = {"port": 10800, "discovery_port": 10900, "communication_port": 10700}
_START_S = 240.0
_REACHED_S = 60.0
_PROBE_S = 2.0

Service = tuple[str, str]
"""A service of a site: (site, role)."""

SERVICES: tuple[Service, ...] = (
    *((site, role) for role in ROLES for site in SITES),
    (CENTRE, "enabler"),
)


def plan() -> FogPlan:
    """Return the plan of four sites in one network, whose links have no limits."""
    nodes = tuple(EmulatedNode(site, site, "site", 1.0, 2**31, (_NETWORK,)) for site in SITES)
    clear = tuple(Direction(_NETWORK, site, way, Shape()) for site in SITES for way in _WAYS)
    return FogPlan((_NETWORK,), nodes, clear)


class ChaosFog:
    """The four running sites, and the faults of their processes and links.

    Threads can share the fog. ``home``: the folder of all data and logs.
    """

    def __init__(self, backend: NamespaceBackend, home: Path) -> None:
        self._backend = backend
        self.home = home
        self._jars = RunSettings().jars_folder
        ensure_jars(self._jars)
        self._configs = {site: self._ignite_config(site) for site in SITES}
        self._shaping = threading.Lock()
        self._frozen: dict[Service, list[psutil.Process]] = {}
        self.logs = home / "logs"
        self._supervision = (home / "supervision.txt").open("w")
        console = Console(file=self._supervision, width=300)
        self._output = FileLog(self.logs, console, [TOKEN])
        self._run = uuid4().hex
        # It ends all processes, also when this process is killed.
        self._watchdog = start_watchdog(self._run)
        self._children: dict[Service, ManagedChild] = {}

    def __enter__(self) -> Self:
        try:
            for service in SERVICES:
                self.start(*service)
            self.wait_ready()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop all services."""
        for service in list(self._frozen):
            self.resume(*service)
        stops = [threading.Thread(target=child.stop) for child in self._children.values()]
        for stop in stops:
            stop.start()
        for stop in stops:
            stop.join()
        if self._watchdog.stdin is not None:
            self._watchdog.stdin.close()
        self._watchdog.wait()
        self._output.close()
        self._supervision.close()

    def start(self, site: str, role: str) -> None:
        """Start a service, which is restarted whenever it ends."""
        child = ManagedChild(self._child(site, role), self._run, self._output)
        self._children[site, role] = child
        child.start()

    def stop(self, site: str, role: str) -> None:
        """Stop a service in an orderly way, and do not start it again."""
        self._children.pop((site, role)).stop()

    def start_missing(self) -> None:
        """Start all services that were stopped and not started again."""
        for service in SERVICES:
            if service not in self._children:
                self.start(*service)

    def has(self, site: str, role: str) -> bool:
        """Return whether a service runs, frozen or not."""
        child = self._children.get((site, role))
        return child is not None and child.pid is not None and psutil.pid_exists(child.pid)

    def kill(self, site: str, role: str) -> None:
        """Kill the process of a service, as a crash would."""
        self._frozen.pop((site, role), None)
        self._process(site, role).kill()

    def descendants(self, site: str, role: str) -> list[psutil.Process]:
        """Return the processes that a service has started, such as Spark's."""
        with suppress(psutil.Error):
            return self._process(site, role).children(recursive=True)
        return []

    def freeze(self, site: str, role: str) -> None:
        """Stop the execution of a service and of its descendants, as a paused machine would."""
        frozen = [self._process(site, role), *self.descendants(site, role)]
        self._frozen[site, role] = frozen
        _signal(frozen, signal.SIGSTOP)

    def resume(self, site: str, role: str) -> None:
        """Continue a frozen service; without effect on a killed service."""
        _signal(self._frozen.pop((site, role), []), signal.SIGCONT)

    def shape_site(self, site: str, shape: Shape) -> None:
        """Apply a shape to all links of a site, in both directions."""
        self._shape(site, shape, None)

    def shape_link(self, site: str, other: str, shape: Shape) -> None:
        """Apply a shape to the link between two sites, in both directions."""
        self._shape(site, shape, other)

    def wait_ready(self) -> None:
        """Wait until all services are ready, and until each site reaches all others."""
        for site, role in SERVICES:
            ready = partial(self.is_ready, site, role)
            eventually(ready, timeout=_START_S, what=f"{role} of {site} is ready")
        for site in SITES:
            reached = partial(self._reaches_all, site)
            eventually(reached, timeout=_REACHED_S, what=f"{site} reaches all sites")

    def is_ready(self, site: str, role: str) -> bool:
        """Return whether a service is ready to serve requests."""
        with self.inside(site):
            if role == "ignite":
                return make_ready(self._configs[site], self._jars)
            url = f"http://127.0.0.1:{PORTS[role]}/readyz"
            headers = {"Authorization": f"Bearer {TOKEN}"}
            try:
                return httpx.get(url, headers=headers, timeout=_PROBE_S).is_success
            except httpx.TransportError:
                return False

    def inside(self, site: str) -> AbstractContextManager[None]:
        """Return a context manager that moves the calling thread to a site's namespace."""
        return self._backend.inside(site)

    @contextmanager
    def agent(self, site: str) -> Iterator[AgentClient]:
        """Yield a client of a site's agent, for the calling thread, which is inside the site."""
        with self.inside(site):
            client = AgentClient(f"http://127.0.0.1:{PORTS['agent']}", TOKEN)
            try:
                yield client
            finally:
                client.close()

    @contextmanager
    def enabler(self) -> Iterator[EnablerClient]:
        """Yield a client of the enabler, for the calling thread, which is inside its site."""
        with self.inside(CENTRE):
            client = EnablerClient(f"http://127.0.0.1:{PORTS['enabler']}", TOKEN)
            try:
                yield client
            finally:
                client.close()

    def _reaches_all(self, site: str) -> bool:
        with self.agent(site) as client:
            found = {each.name for each in client.fabric().sites if each.reachable}
        return found >= set(SITES)

    def _process(self, site: str, role: str) -> psutil.Process:
        pid = self._children[site, role].pid
        if pid is None:
            raise psutil.NoSuchProcess(-1, role)
        return psutil.Process(pid)

    def _shape(self, site: str, shape: Shape, peer: str | None) -> None:
        with self._shaping:
            for way in _WAYS:
                self._backend.connect(Direction(_NETWORK, site, way, shape, peer))

    def _child(self, site: str, role: str) -> Child:
        if role == "ignite":
            argv = self._configs[site].argv(find_java(), self._jars)
        else:
            argv = [sys.executable, "-m", PACKAGES[role]]
        inside = self._backend.command_in(site, argv)
        settings = {} if role == "ignite" else self._settings(site, role)
        return Child(f"{role}-{site}", tuple(inside), lambda: self.is_ready(site, role), settings)

    def _ignite_config(self, site: str) -> IgniteConfig:
        # A killed process loses nothing at this level: only a power cut would.
        return IgniteConfig(
            self.home / site / "ignite", **_IGNITE_PORTS, durability="log", heap_mb=128
        )

    def _settings(self, site: str, role: str) -> dict[str, str]:
        """Return the environment variables of a service, which ignores those of the others."""
        return {
            "MISTBOW_HOME": str(self.home / site),
            "MISTBOW_NODE": f"{role}-{site}",
            "MISTBOW_SITE": site,
            "MISTBOW_HOST": "0.0.0.0",  # noqa: S104 - in a namespace of its own
            "MISTBOW_TOKEN": TOKEN,
            "MISTBOW_PEERS": "" if site == CENTRE else self._url(CENTRE, "agent"),
            "MISTBOW_AGENT_URL": self._url(site, "agent"),
            "MISTBOW_WORKER_URL": self._url(site, "worker"),
            "MISTBOW_WHEN_FENCED": "end",
            "MISTBOW_DURABILITY": "log",
            "MISTBOW_COLLECT_ROUTES": "false",
            "MISTBOW_DRIVER_MEMORY": "512m",
            **{f"MISTBOW_{name.upper()}_PORT": str(port) for name, port in PORTS.items()},
        }

    def _url(self, site: str, role: str) -> str:
        return f"http://{self._backend.address(site, _NETWORK)}:{PORTS[role]}"


def _signal(processes: list[psutil.Process], number: signal.Signals) -> None:
    for process in processes:
        with suppress(psutil.Error, ProcessLookupError):
            os.kill(process.pid, number)
