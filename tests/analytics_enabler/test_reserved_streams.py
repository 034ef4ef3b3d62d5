"""Streams with the name of an enabler's state that an earlier version of the agent created."""

import asyncio
from pathlib import Path

import httpx
import pyarrow as pa
import pytest

from analytics_enabler.main import create_app
from analytics_enabler.settings import EnablerSettings
from mistbow.clock import system_clock
from storage_agent.ignite.client import IgniteClient
from storage_agent.settings import AgentSettings
from storage_agent.streams.streams import Streams
from tests.support.agents import running_agent
from tests.support.conditions import eventually
from tests.support.http_server import served


async def create_stream(ignite_port: int, name: str) -> None:
    """Create a stream with foreign fields in Ignite, as earlier agents did on request."""
    ignite = IgniteClient([("127.0.0.1", ignite_port)])
    ignite.start()
    assert await ignite.wait_connected(20)
    streams = Streams(ignite, system_clock, 0)
    await streams.create(name, pa.schema([("n", pa.int64())]))
    await streams.close()
    await ignite.close()


@pytest.mark.parametrize(
    ("name", "report"), [("deployments", "/readyz"), ("placements", "/api/insights")]
)
def test_enabler_names_a_foreign_stream_and_continues_once_it_is_deleted(
    agent_settings: AgentSettings, tmp_path: Path, name: str, report: str
) -> None:
    asyncio.run(create_stream(agent_settings.ignite_port, name))
    insights = {"queries": "x = COMPUTE AVG(cpu) EVERY 5 SECONDS"}
    with running_agent(agent_settings) as agent_url:
        settings = EnablerSettings(home=tmp_path, agent_url=agent_url)
        with served(create_app(settings)) as url:
            httpx.post(f"{url}/api/insights", json=insights)
            expected = f"the stream {name} has other fields than the state of an enabler"

            def is_named() -> bool:
                return expected in httpx.get(url + report).text

            eventually(is_named, what="the enabler names the stream")
            deletion = httpx.delete(f"{agent_url}/streams/{name}", params={"owner": "enabler"})
            assert deletion.status_code == 204
            eventually(lambda: not is_named(), what="the enabler has created the stream")
            assert httpx.post(f"{url}/api/insights", json=insights).status_code == 201
