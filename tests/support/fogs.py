"""Three sites in network namespaces: b shares a network with a, and another one with c."""

import os
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import httpx

from fog_emulation.namespace_backend import NamespaceBackend
from fog_emulation.topology import Direction, EmulatedNode, FogPlan, Shape, Way
from mistbow.client.agent import AgentClient
from mistbow.fabric import Fabric
from tests.support.conditions import eventually

PORT = 8300
TOKEN = "of-the-fog"  # noqa: S105 - of these tests only

NETWORKS = {"a": ("one",), "b": ("one", "two"), "c": ("two",)}
WAYS: tuple[Way, ...] = ("up", "down")


def plan() -> FogPlan:
    """Return the plan of the three sites, whose links have no limits."""
    nodes = [EmulatedNode(name, name, "site", 1.0, 2**30, nets) for name, nets in NETWORKS.items()]
    clear = [
        Direction(network, name, way, Shape())
        for name, networks in NETWORKS.items()
        for network in networks
        for way in WAYS
    ]
    return FogPlan(("one", "two"), tuple(nodes), tuple(clear))


class Fog:
    """The three running sites; ``more``: further settings of their agents."""

    def __init__(self, backend: NamespaceBackend, home: Path, **more: object) -> None:
        self._backend = backend
        self._more = {f"MISTBOW_{name.upper()}": str(value) for name, value in more.items()}
        for name in NETWORKS:
            argv = [sys.executable, "-m", "tests.storage_agent.membership.site_process"]
            environment = {**os.environ, **self._settings(name)}
            backend.spawn(name, self._command(name, [*argv, str(home / name)]), env=environment)
        for name in NETWORKS:
            eventually(lambda name=name: self.is_ready(name), timeout=90, what=f"{name} is ready")  # type: ignore[misc]

    def _settings(self, site: str) -> dict[str, str]:
        """Return the environment variables of a site's agent."""
        peer = {"a": f"http://{self._host('b', 'one')}:{PORT}", "b": ""}
        peer["c"] = f"http://{self._host('b', 'two')}:{PORT}"
        return {
            "MISTBOW_NODE": f"node-{site}",
            "MISTBOW_SITE": site,
            "MISTBOW_HOST": "0.0.0.0",  # noqa: S104 - in a namespace of its own
            "MISTBOW_TOKEN": TOKEN,
            "MISTBOW_AGENT_PORT": str(PORT),
            "MISTBOW_AGENT_URL": f"http://{self._host(site, NETWORKS[site][0])}:{PORT}",
            "MISTBOW_PEERS": peer[site],
            "MISTBOW_LOG_LEVEL": "warning",
            **self._more,
        }

    def _host(self, site: str, network: str) -> str:
        """Return the host in the address of a site's agent."""
        return self._backend.address(site, network)

    def _command(self, site: str, argv: list[str]) -> list[str]:
        """Return the command that runs a site's process."""
        return argv

    def is_ready(self, site: str) -> bool:
        """Return whether a site's agent is ready."""
        with self._backend.inside(site):
            try:
                return self.readyz().is_success
            except httpx.TransportError:
                return False

    @staticmethod
    def readyz() -> httpx.Response:
        """Return the readiness of the agent in the namespace of the calling thread."""
        headers = {"Authorization": f"Bearer {TOKEN}"}
        return httpx.get(f"http://127.0.0.1:{PORT}/readyz", headers=headers)

    @contextmanager
    def at(self, site: str) -> Iterator[AgentClient]:
        """Yield a client of a site's agent.

        The calling thread is in the site's namespace meanwhile.
        """
        with self._backend.inside(site):
            client = AgentClient(f"http://127.0.0.1:{PORT}", TOKEN)
            try:
                yield client
            finally:
                client.close()

    def fabric(self, site: str) -> Fabric:
        """Return the fabric as a site's agent describes it."""
        with self.at(site) as client:
            return client.fabric()

    def reached(self, site: str) -> set[str]:
        """Return the names of the sites that a site's agent reaches, including its own."""
        return {each.name for each in self.fabric(site).sites if each.reachable}

    def links(self, site: str) -> set[tuple[str, str]]:
        """Return the links that a site's agent reports: (source, target) of each link."""
        return {(link.source, link.target) for link in self.fabric(site).links}

    def inside(self, site: str) -> AbstractContextManager[None]:
        """Return a context manager that moves the calling thread to a site's namespace."""
        return self._backend.inside(site)

    def shape(self, site: str, shape: Shape) -> None:
        """Apply a shape to all links of a site, in both directions."""
        for way in WAYS:
            for network in NETWORKS[site]:
                self._backend.connect(Direction(network, site, way, shape))
