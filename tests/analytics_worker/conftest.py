from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from analytics_worker.spark.class_archive import java_options
from analytics_worker.spark.session import start_session
from ignite_server.server import IgniteServer
from mistbow.client.agent import AgentClient
from mistbow.streams.schemas import RESULT_ROWS
from tests.support.operators import install_example_operators
from tests.support.services import Service, storage_agent


@pytest.fixture(scope="session")
def spark(processes: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    with pytest.MonkeyPatch.context() as patch:
        # Spark's processes get the environment that it is started with.
        install_example_operators(tmp_path_factory.mktemp("operators"), patch)
        session = start_session("local[2]", "768m", java_options())
    yield session
    session.stop()


@pytest.fixture(scope="module")
def agent_service(processes: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    home = tmp_path_factory.mktemp("site")
    with IgniteServer(home) as ignite, storage_agent(home, ignite.port, node="n1") as running:
        yield running


@pytest.fixture
def agent(agent_service: Service) -> Iterator[AgentClient]:
    client = AgentClient(agent_service.url)
    yield client
    client.close()


@pytest.fixture
def target(agent: AgentClient, request: pytest.FixtureRequest) -> str:
    """Return the name of a new stream of results, named after the test."""
    name = f"results/{request.node.name.removeprefix('test_').replace('[', '.').rstrip(']')}"
    agent.create_stream(name, RESULT_ROWS)
    return name


@pytest.fixture
def epoch(agent: AgentClient, target: str) -> int:
    """Claim the lease of the stream ``target``; return the epoch of the lease."""
    return agent.claim(target).epoch
