"""Changing what can be changed while agents run, on a real Ignite."""

import asyncio

from mistbow.ignite.server import IgniteServer
from mistbow.settings import AgentSettings
from storage_agent.config import Config, ConfigCell, ConfigChange
from storage_agent.ignite_client import IgniteClient


async def test_changes_at_the_same_time_are_all_kept(
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
        ConfigChange(most_bytes=2**21),
        ConfigChange(when_full="refuse"),
        ConfigChange(streams={"a/*": 1000}),
    ]
    await asyncio.gather(*(cells[n % 2].change(each) for n, each in enumerate(changes)))
    again = ConfigCell(settings, client)
    await again.load()
    assert again.current == Config(
        retention_ms=5000, most_bytes=2**21, when_full="refuse", streams={"a/*": 1000}
    )
    await client.close()
