"""Three sites in network namespaces: a and c share no network; b is in both, by two addresses."""

import os
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import httpx

from mistbow.client.agent import AgentClient
from mistbow.fabric import Fabric
from mistbow.fog_emulation.namespace_backend import NamespaceBackend
from mistbow.fog_emulation.parts import Direction, FogPlan, Node, Shape, Way
from tests.support.waiting import eventually

PORT = 50000
TOKEN = "of-the-fog"  # noqa: S105 - of these tests only

NETWORKS = {"a": ("one",), "b": ("one", "two"), "c": ("two",)}
WAYS: tuple[Way, ...] = ("up", "down")


def plan() -> FogPlan:
    """Return the fog, its links clear."""
    nodes = [Node(name, name, "site", 1.0, 2**30, nets) for name, nets in NETWORKS.items()]
    clear = [
        Direction(network, name, way, Shape())
        for name, networks in NETWORKS.items()
        for network in networks
        for way in WAYS
    ]
    return FogPlan(("one", "two"), tuple(nodes), tuple(clear))


class Fog:
    """The sites, each reached from inside of its node; ``more`` are settings of their agents."""

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
                [sys.executable, "-m", "tests.storage_agent.fabric.site_process", str(home / name)],
                env={**os.environ, **settings},
            )
        for name in NETWORKS:
            eventually(lambda name=name: self.is_ready(name), timeout=90, what=f"{name} is ready")  # type: ignore[misc]

    def is_ready(self, site: str) -> bool:
        """Tell whether a site's agent takes requests."""
        with self._backend.inside(site):
            try:
                headers = {"Authorization": f"Bearer {TOKEN}"}
                return httpx.get(f"http://127.0.0.1:{PORT}/readyz", headers=headers).is_success
            except httpx.TransportError:
                return False

    @contextmanager
    def at(self, site: str) -> Iterator[AgentClient]:
        """Yield a client of a site's agent; this thread is in its node meanwhile."""
        with self._backend.inside(site):
            client = AgentClient(f"http://127.0.0.1:{PORT}", TOKEN)
            try:
                yield client
            finally:
                client.close()

    def fabric(self, site: str) -> Fabric:
        """Return what a site's agent says of the fog."""
        with self.at(site) as client:
            return client.fabric()

    def reached(self, site: str) -> set[str]:
        """Return the sites that an agent reaches, itself included."""
        return {each.name for each in self.fabric(site).sites if each.reachable}

    def links(self, site: str) -> set[tuple[str, str]]:
        """Return the links that an agent knows, by their ends."""
        return {(link.source, link.target) for link in self.fabric(site).links}

    def inside(self, site: str) -> AbstractContextManager[None]:
        """Have this thread be in a site's node while the ``with`` lasts."""
        return self._backend.inside(site)

    def shape(self, site: str, shape: Shape) -> None:
        """Make all links of a site such, both ways."""
        for way in WAYS:
            for network in NETWORKS[site]:
                self._backend.connect(Direction(network, site, way, shape))
