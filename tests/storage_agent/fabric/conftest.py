"""Three sites, each with its own Ignite; agents of them as a test pleases."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from mistbow.client.agent import AgentClient
from mistbow.fabric import Site
from mistbow.ignite.server import IgniteServer
from mistbow.ports import free_ports
from mistbow.settings import AgentSettings
from storage_agent.main import create_app
from tests.storage_agent.conftest import empty
from tests.support.serving import served
from tests.support.waiting import eventually

TOKEN = "of-the-fog"  # noqa: S105 - of these tests only


@dataclass(frozen=True)
class Place:
    """Where a site's agent runs, if it runs."""

    name: str
    home: Path
    ignite_port: int
    port: int

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @contextmanager
    def agent(self, *peers: "Place") -> Iterator[AgentClient]:
        """Serve this site's agent, and yield a client of it once it is ready."""
        settings = AgentSettings.model_validate(
            {
                "home": self.home,
                "node": f"node-{self.name}",
                "site": self.name,
                "region": "r",
                "labels": "rack=7",
                "ignite_port": self.ignite_port,
                "agent_url": self.url,
                "peers": ",".join(peer.url for peer in peers),
                "token": TOKEN,
            }
        )
        with served(create_app(settings), self.port):
            ready = f"{self.url}/readyz"
            headers = {"Authorization": f"Bearer {TOKEN}"}
            eventually(lambda: httpx.get(ready, headers=headers).is_success, what="it is ready")
            client = AgentClient(self.url, TOKEN)
            yield client
            client.close()


@pytest.fixture(scope="session")
def servers(
    ignite_server: IgniteServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[list[IgniteServer]]:
    with ExitStack() as stack:
        homes = [tmp_path_factory.mktemp("ignite") for _ in range(2)]
        others = [stack.enter_context(IgniteServer(home, durability="log")) for home in homes]
        yield [ignite_server, *others]


@pytest.fixture
def places(servers: list[IgniteServer], tmp_path: Path) -> list[Place]:
    for server in servers:
        empty(server)
    ports = free_ports(len(servers))
    return [
        Place(name, tmp_path / name, server.port, port)
        for name, server, port in zip("abc", servers, ports, strict=True)
    ]


def site_of(client: AgentClient, name: str) -> Site:
    """Return what an agent says of a site; fails while it does not know it."""
    found = {site.name: site for site in client.fabric().sites}
    assert name in found, f"{name} is not among {sorted(found)}"
    return found[name]


def knows(client: AgentClient, *names: str) -> None:
    """Wait until an agent reaches these sites, and knows what they said of themselves."""

    def all_known() -> bool:
        return all(
            site_of(client, name).reachable and site_of(client, name).labels for name in names
        )

    eventually(all_known, what=f"{names} are known")
