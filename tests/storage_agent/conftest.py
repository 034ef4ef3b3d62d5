"""One Ignite server for all tests of the storage agent, emptied before each test."""

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from ignite_server.ports import free_ports
from ignite_server.server import IgniteServer
from mistbow.client.agent import AgentClient
from mistbow.clock import system_clock
from storage_agent.settings import AgentSettings
from tests.support.agents import running_agent
from tests.support.ignite import empty
from tests.support.sites import AgentSite


@dataclass(slots=True)
class ManualClock:
    """A clock that a test moves."""

    now: int

    def __call__(self) -> int:
        return self.now


@pytest.fixture(scope="session")
def ignite_server(
    processes: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[IgniteServer]:
    with IgniteServer(tmp_path_factory.mktemp("ignite"), durability="log") as server:
        yield server


@pytest.fixture
def ignite(ignite_server: IgniteServer) -> IgniteServer:
    empty(ignite_server)
    return ignite_server


@pytest.fixture
def settings(ignite: IgniteServer, tmp_path: Path) -> AgentSettings:
    return AgentSettings(
        home=tmp_path,
        node="n1",
        region="r1",
        labels="rack=7",
        ignite_port=ignite.port,
        collect_routes=False,
    )


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(system_clock())


@pytest.fixture
def url(settings: AgentSettings, clock: ManualClock) -> Iterator[str]:
    with running_agent(settings, clock) as url:
        yield url


@pytest.fixture
def client(url: str) -> Iterator[AgentClient]:
    client = AgentClient(url)
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
def places(servers: list[IgniteServer], tmp_path: Path) -> list[AgentSite]:
    for server in servers:
        empty(server)
    ports = free_ports(len(servers))
    return [
        AgentSite(name, tmp_path / name, server.port, port)
        for name, server, port in zip("abc", servers, ports, strict=True)
    ]
