"""The spool of a restored site: its points were acknowledged, so they are stored."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from ignite_server.server import IgniteServer
from mistbow.client.agent import AgentClient
from mistbow.clock import system_clock
from mistbow.streams.schemas import EVENTS
from storage_agent.backup.archive import Archive
from storage_agent.backup.copy import back_up
from storage_agent.settings import AgentSettings
from tests.storage_agent.backup.conftest import restored
from tests.support.agents import running_agent
from tests.support.conditions import eventually

BEGIN = system_clock()


@pytest.fixture
def ignite_alone(processes: None, tmp_path: Path) -> Iterator[IgniteServer]:
    """Start an Ignite for one test, which kills it; yield the server."""
    with IgniteServer(tmp_path / "home", durability="log") as server:
        yield server


def put(url: str, value: int) -> int:
    """Store a point with a key of its own; return the status."""
    item = {"metricID": "m", "entityID": "e", "val": value, "timestamp": BEGIN + value}
    headers = {"Idempotency-Key": f"key-{value}"}
    body = {"monitoring": [item]}
    return httpx.post(f"{url}/put", json=body, headers=headers, timeout=30).status_code


def values(client: AgentClient) -> list[float]:
    return sorted(client.read("raw", 0).table["value"].to_pylist())


@pytest.mark.soak
async def test_points_that_waited_in_the_spool_during_a_restoration_are_stored_once(
    ignite_alone: IgniteServer, tmp_path: Path
) -> None:
    home = tmp_path / "home"
    settings = AgentSettings(
        home=home, node="n1", ignite_port=ignite_alone.port, collect_routes=False
    )
    archive = Archive(str(tmp_path / "backup"))
    with running_agent(settings) as url:
        client = AgentClient(url)
        assert put(url, 1) == put(url, 2) == 200
        back_up(client, archive)
        client.create_stream("deployments/later", EVENTS)
        assert put(url, 3) == 200
        # The heads of the streams after the cut are remembered.
        heads = home / "agent" / "heads.json"
        eventually(lambda: "deployments/later" in heads.read_text(), what="heads are remembered")
        client.close()
        ignite_alone.kill()
        eventually(lambda: put(url, 4) == 202, what="points are spooled")
        assert put(url, 5) == 202
    # As docs/backup.md describes.
    shutil.rmtree(home / "ignite")
    heads.unlink()
    ignite_alone.start()
    await restored(archive, ignite_alone)
    with running_agent(settings) as url:
        client = AgentClient(url)
        eventually(lambda: len(values(client)) == 4, what="the spooled points are stored")
        eventually(lambda: put(url, 5) == 200, what="the spool is empty")
        assert put(url, 6) == 200
        assert values(client) == [1, 2, 4, 5, 6]
        assert client.info("raw").head > 2**40
        client.close()
