"""Two real sites, whose agents exchange heartbeats."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

import pytest

from ignite_server.ports import free_ports
from ignite_server.server import IgniteServer
from mistbow.client.agent import AgentClient
from tests.support.conditions import eventually
from tests.support.services import Service, storage_agent


@dataclass(frozen=True)
class EdgeAndCloud:
    """The sites ``cloud`` and ``edge``, each with an agent."""

    cloud: AgentClient
    edge: AgentClient
    edge_agent: Service

    @property
    def both(self) -> tuple[AgentClient, AgentClient]:
        """The clients of both agents."""
        return self.cloud, self.edge


@contextmanager
def edge_and_cloud(folders: pytest.TempPathFactory) -> Iterator[EdgeAndCloud]:
    """Run the two sites within the ``with``, and yield them when each site reaches the other."""
    with ExitStack() as stack:
        clients = []
        ports = free_ports(2)
        for name, port, peer in zip(("cloud", "edge"), ports, reversed(ports), strict=True):
            home = folders.mktemp(name)
            ignite = stack.enter_context(IgniteServer(home))
            settings = {"node": name, "site": name, "peers": f"http://127.0.0.1:{peer}"}
            service = stack.enter_context(storage_agent(home, ignite.port, port=port, **settings))
            clients.append(AgentClient(service.url))
            stack.callback(clients[-1].close)
        eventually(
            lambda: all(
                {site.name for site in client.fabric().sites if site.reachable} == {"cloud", "edge"}
                for client in clients
            ),
            what="both sites are members",
        )
        yield EdgeAndCloud(*clients, edge_agent=service)
