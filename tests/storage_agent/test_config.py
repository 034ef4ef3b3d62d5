"""Concurrent changes of the configuration, on a real Ignite."""

import asyncio

from ignite_server.server import IgniteServer
from mistbow.client.operation_model import Config, ConfigChange
from storage_agent.agent.config import ConfigCell
from storage_agent.ignite.client import IgniteClient
from storage_agent.settings import AgentSettings


async def test_concurrent_changes_are_all_stored(
    settings: AgentSettings, ignite: IgniteServer
) -> None:
    client = IgniteClient([("127.0.0.1", ignite.port)])
    client.start()
    assert await client.wait_connected(20)
    cells = [ConfigCell(settings, client) for _ in range(2)]
    for cell in cells:
        await cell.load()
    changes = [
        ConfigChange(retention_ms=5000),
        ConfigChange(max_bytes=2**21),
        ConfigChange(when_full="refuse"),
        ConfigChange(streams={"a/*": 1000}),
    ]
    await asyncio.gather(*(cells[n % 2].change(each) for n, each in enumerate(changes)))
    again = ConfigCell(settings, client)
    await again.load()
    assert again.current == Config(
        retention_ms=5000, max_bytes=2**21, when_full="refuse", streams={"a/*": 1000}
    )
    await client.close()
