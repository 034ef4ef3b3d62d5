"""One agent for the tests of a module; each test uses metrics of its own."""

from collections.abc import Iterator

import httpx
import pytest

from ignite_server.server import IgniteServer
from mistbow.client.agent import AgentClient
from storage_agent.settings import AgentSettings
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
        ignite_port=ignite_server.port,
        max_points=1000,
    )


@pytest.fixture(scope="module")
def url(own_settings: AgentSettings) -> Iterator[str]:
    with running_agent(own_settings) as url:
        yield url


@pytest.fixture(scope="module")
def client(url: str) -> Iterator[AgentClient]:
    client = AgentClient(url)
    yield client
    client.close()


def stored(client: AgentClient, *metrics: str) -> dict[tuple[str, str], list[tuple[int, float]]]:
    """Return the stored points: (metric, entity) -> (time in ms, value) of each point."""
    [node] = client.get(list(metrics), latest=False)
    return {
        (series.metric, series.entity): [(value.ts, value.value) for value in series.values]
        for series in node.data
    }


def counted(url: str, name: str, **labels: str) -> float:
    """Return the value of a counter or gauge in the agent's ``/metrics``."""
    pairs = ",".join(f'{key}="{value}"' for key, value in sorted(labels.items()))
    start = f"{name}{{{pairs}}} " if pairs else f"{name} "
    lines = httpx.get(f"{url}/metrics").text.splitlines()
    return next((float(line.removeprefix(start)) for line in lines if line.startswith(start)), 0.0)
