"""An agent with a few points, for queries that change nothing."""

from collections.abc import Iterator

import httpx
import pyarrow as pa
import pytest
from pydantic import SecretStr

from ignite_server.server import IgniteServer
from mistbow.client import AgentClient, Point
from mistbow.clock import system_clock
from storage_agent.main import create_app
from storage_agent.settings import AgentSettings
from tests.storage_agent.conftest import ManualClock
from tests.support.conditions import eventually
from tests.support.http_server import served
from tests.support.ignite import empty

NOW = system_clock()
TOKEN = "of-the-fog"  # noqa: S105 - of these tests only
RESULTS = pa.schema([pa.field("ts", pa.int64(), nullable=False), ("word", pa.string())])


@pytest.fixture(scope="module")
def agent(
    ignite_server: IgniteServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[AgentClient]:
    """Serve an agent with 2 metrics of 3 entities at 10 times, and a stream of 3 rows."""
    empty(ignite_server)
    settings = AgentSettings(
        home=tmp_path_factory.mktemp("agent"),
        node="n1",
        token=SecretStr(TOKEN),
        ignite_port=ignite_server.port,
        sql_seconds=50,
        sql_memory_mb=64,
        sql_max_rows=1_000,
        sql_queries=1,
    )
    with served(create_app(settings, ManualClock(NOW))) as url:
        headers = {"Authorization": f"Bearer {TOKEN}"}
        ready = f"{url}/readyz"
        eventually(
            lambda: httpx.get(ready, headers=headers).is_success, what="the service is ready"
        )
        client = AgentClient(url, TOKEN)
        fill(client)
        yield client
        client.close()


def fill(client: AgentClient) -> None:
    for step in range(10):
        client.put(
            [
                Point(metric, entity, NOW - 10_000 + step * 1000, float(step), units="s")
                for metric in ("cpu", "mem")
                for entity in ("a", "b", "c\"'é")
            ]
        )
    client.put([Point("cpu", "a", NOW + 10**9, 99.0)])
    client.create_stream("results/all.fair", RESULTS)
    client.append("results/all.fair", pa.table({"ts": [1, 2, 3], "word": ["x", None, "z"]}))
