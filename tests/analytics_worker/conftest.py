from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from analytics_worker.class_archive import java_options
from analytics_worker.spark.session import start_session
from mistbow.client.agent import AgentClient
from mistbow.ignite.server import IgniteServer
from tests.support.operators import know_example
from tests.support.services import Service, storage_agent


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    with pytest.MonkeyPatch.context() as patch:
        # Spark's processes get the environment that it is started with.
        know_example(tmp_path_factory.mktemp("operators"), patch)
        session = start_session("local[2]", "768m", java_options())
    yield session
    session.stop()


@pytest.fixture(scope="module")
def agent_service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    home = tmp_path_factory.mktemp("site")
    with IgniteServer(home) as ignite, storage_agent(home, ignite.port, node="n1") as running:
        yield running


@pytest.fixture
def agent(agent_service: Service) -> Iterator[AgentClient]:
    client = AgentClient(agent_service.url)
    yield client
    client.close()
