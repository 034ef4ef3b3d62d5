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
        peers = {"a": backend.address("b", "one"), "c": backend.address("b", "two"), "b": ""}
        for name, networks in NETWORKS.items():
            address = backend.address(name, networks[0])
            settings = {
                "MISTBOW_NODE": f"node-{name}",
                "MISTBOW_SITE": name,
                "MISTBOW_HOST": "0.0.0.0",  # noqa: S104 - in a namespace of its own
                "MISTBOW_TOKEN": TOKEN,
                "MISTBOW_AGENT_PORT": str(PORT),
                "MISTBOW_AGENT_URL": f"http://{address}:{PORT}",
                "MISTBOW_PEERS": f"http://{peers[name]}:{PORT}" if peers[name] else "",
                "MISTBOW_LOG_LEVEL": "warning",
                **{f"MISTBOW_{name.upper()}": str(value) for name, value in more.items()},
            }
            backend.spawn(
                name,
                [
                    sys.executable,
                    "-m",
                    "tests.storage_agent.membership.site_process",
                    str(home / name),
                ],
                env={**os.environ, **settings},
            )
        for name in NETWORKS:
            eventually(lambda name=name: self.is_ready(name), timeout=90, what=f"{name} is ready")  # type: ignore[misc]

    def is_ready(self, site: str) -> bool:
        """Return whether a site's agent is ready."""
        with self._backend.inside(site):
            try:
                headers = {"Authorization": f"Bearer {TOKEN}"}
                return httpx.get(f"http://127.0.0.1:{PORT}/readyz", headers=headers).is_success
            except httpx.TransportError:
                return False

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
