"""Two sites whose agents reach each other through gates, with any number of enablers."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import pytest

from analytics.client.enabler import EnablerClient
from analytics_enabler.main import create_app as create_enabler
from analytics_enabler.settings import EnablerSettings
from ignite_server.ports import free_ports
from ignite_server.server import IgniteServer
from mistbow.client.agent import AgentClient
from mistbow.fabric import Enabler
from storage_agent.main import create_app as create_agent
from storage_agent.settings import AgentSettings
from tests.analytics_enabler.spark_worker import MakeWorker, SparkWorker
from tests.support.conditions import eventually
from tests.support.gate import Gate
from tests.support.http_server import served
from tests.support.ignite import empty


@dataclass
class DomainSite:
    """A site with an agent and a worker."""

    name: str
    home: Path
    ignite_port: int
    gate: Gate
    port: int
    worker: SparkWorker
    running: ExitStack = field(default_factory=ExitStack)

    @property
    def url(self) -> str:
        """The address of the agent for services of its own site."""
        return f"http://127.0.0.1:{self.port}"

    def start(self, peer: "DomainSite") -> None:
        """Start the agent and the worker."""
        self.start_agent(peer)
        self.worker.start(self.url)

    def start_agent(self, peer: "DomainSite") -> None:
        """Start the agent."""
        settings = AgentSettings(
            home=self.home,
            node=f"{self.name}-1",
            site=self.name,
            ignite_port=self.ignite_port,
            agent_url=f"http://127.0.0.1:{self.gate.port}",
            peers=f"http://127.0.0.1:{peer.gate.port}",
        )
        self.running.enter_context(served(create_agent(settings), self.port))
        ready = f"{self.url}/readyz"
        eventually(lambda: httpx.get(ready).is_success, timeout=60, what="the agent is ready")

    def stop(self) -> None:
        """End the agent, the worker and the enablers of the site."""
        self.worker.kill()
        self.running.close()

    @contextmanager
    def enabler(self, domain: str = "all", sites: str = "") -> Iterator[EnablerClient]:
        """Serve an enabler of the site, and yield a client of it once it is ready."""
        [port] = free_ports(1)
        settings = EnablerSettings(
            home=self.home,
            agent_url=self.url,
            enabler_port=port,
            enabler_url=f"http://127.0.0.1:{port}",
            domain=domain,
            domain_sites=sites,
        )
        with served(create_enabler(settings), port) as url:
            eventually(
                lambda: httpx.get(f"{url}/readyz").is_success,
                timeout=30,
                what="the service is ready",
            )
            client = EnablerClient(url)
            yield client
            client.close()

    def start_enabler(self, domain: str = "all", sites: str = "") -> EnablerClient:
        """Serve an enabler until the site stops; return a client of it."""
        return self.running.enter_context(self.enabler(domain, sites))


@dataclass
class DomainFog:
    """The sites ``a`` and ``b``."""

    a: DomainSite
    b: DomainSite

    def cut(self) -> None:
        """Cut the link between the agents."""
        self.a.gate.shut()
        self.b.gate.shut()

    def heal(self) -> None:
        """Restore the link between the agents."""
        self.a.gate.open()
        self.b.gate.open()

    def enablers(self, seen_by: DomainSite) -> dict[tuple[str, str], Enabler]:
        """Return (site, domain) -> enabler, for all reachable sites as one site sees them."""
        client = AgentClient(seen_by.url)
        try:
            return {
                (site.name, each.domain): each
                for site in client.fabric().sites
                if site.reachable
                for each in site.enablers
            }
        finally:
            client.close()

    def wait_for(self, seen_by: DomainSite, expected: dict[tuple[str, str], bool]) -> None:
        """Wait until a site sees these enablers: (site, domain) -> whether it is active."""

        def found() -> bool:
            seen = {key: each.is_active for key, each in self.enablers(seen_by).items()}
            assert seen == expected
            return True

        eventually(found, timeout=30, what=f"{expected} is seen")


@pytest.fixture
def fog(
    ignite_server: IgniteServer,
    other_ignite: IgniteServer,
    tmp_path: Path,
    make_worker: MakeWorker,
) -> Iterator[DomainFog]:
    ports = free_ports(2)
    empty(ignite_server)
    empty(other_ignite)
    with Gate(ports[0]) as gate_a, Gate(ports[1]) as gate_b, ExitStack() as stack:
        sites = [
            DomainSite(name, tmp_path / name, server.port, gate, port, make_worker(f"at-{name}"))
            for name, server, gate, port in zip(
                "ab", (ignite_server, other_ignite), (gate_a, gate_b), ports, strict=True
            )
        ]
        fog = DomainFog(*sites)
        for site, peer in ((fog.a, fog.b), (fog.b, fog.a)):
            stack.callback(site.worker.stop)
            stack.callback(site.stop)
            site.start(peer)
        for site in sites:
            client = AgentClient(site.url)
            eventually(
                lambda c=client: sum(len(s.workers) for s in c.fabric().sites if s.reachable) == 2,  # type: ignore[misc]
                timeout=60,
                what="both sites are there",
            )
            client.close()
        yield fog
