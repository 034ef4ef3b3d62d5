"""One agent for the tests of a module."""

from collections.abc import Iterator

import httpx
import pytest

from ignite_server.server import IgniteServer
from mistbow.client.agent import AgentClient
from storage_agent.settings import AgentSettings
from tests.storage_agent.conftest import ManualClock
from tests.storage_agent.promql.fleet import END
from tests.support.agents import running_agent
from tests.support.ignite import empty


@pytest.fixture(scope="module")
def own_settings(
    ignite_server: IgniteServer, tmp_path_factory: pytest.TempPathFactory
) -> AgentSettings:
    empty(ignite_server)
    return AgentSettings(
        home=tmp_path_factory.mktemp("home"),
        node="n1",
        region="r1",
        labels="rack=7",
        ignite_port=ignite_server.port,
        promql_samples=200_000,
    )


@pytest.fixture(scope="module")
def url(own_settings: AgentSettings) -> Iterator[str]:
    with running_agent(own_settings, ManualClock(END)) as url:
        yield url


@pytest.fixture(scope="module")
def client(url: str) -> Iterator[AgentClient]:
    client = AgentClient(url)
    yield client
    client.close()


@pytest.fixture(scope="module")
def api(url: str) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=f"{url}/api/v1", timeout=30) as client:
        yield client
