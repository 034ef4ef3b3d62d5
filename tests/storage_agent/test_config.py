"""Changes of the configuration that are concurrent or stay without an answer, on a real Ignite."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from ignite_server.server import IgniteServer
from mistbow.client.operation_model import Config, ConfigChange
from mistbow.errors import UnavailableError
from storage_agent.agent import config
from storage_agent.agent.config import ConfigCell
from storage_agent.settings import AgentSettings
from tests.storage_agent.silent_ignite import SilentIgnite


@pytest.fixture
async def client(ignite: IgniteServer) -> AsyncIterator[SilentIgnite]:
    async with SilentIgnite.connected_to(ignite) as client:
        yield client


@pytest.mark.parametrize("arrives", [True, False], ids=["at once", "late"])
async def test_change_without_an_answer_is_undone_and_never_takes_effect(
    arrives: bool,
    settings: AgentSettings,
    client: SilentIgnite,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(config, "_STORE_S", 0.0)
    cell = ConfigCell(settings, client)
    await cell.load()
    before = await cell.change(ConfigChange(retention_ms=50_000))
    client.is_silent, client.arrives = True, arrives
    with pytest.raises(UnavailableError, match="the configuration is not changed"):
        await cell.change(ConfigChange(retention_ms=1000))
    with pytest.raises(UnavailableError):
        await cell.settle()
    assert cell.current == before

    client.is_silent = False
    await cell.settle()
    await client.deliver()
    again = ConfigCell(settings, client)
    await again.load()
    assert again.current == cell.current == before
    changed = await cell.change(ConfigChange(when_full="evict"))
    assert (changed.retention_ms, changed.when_full) == (50_000, "evict")


async def test_concurrent_changes_are_all_stored(
    settings: AgentSettings, client: SilentIgnite
) -> None:
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
