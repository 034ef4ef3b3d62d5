"""Changes of the configuration that are concurrent or stay without an answer, on a real Ignite."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from ignite_server.server import IgniteServer
from mistbow.client.operation_model import Config, ConfigChange
from mistbow.errors import UnavailableError
from storage_agent.agent import config
from storage_agent.agent.config import ConfigCell
from storage_agent.ignite.client import IgniteClient
from storage_agent.settings import AgentSettings


class SilentIgnite(IgniteClient):
    """A client that gets no answers to its writes; ``late``: the writes that arrive later."""

    is_silent = False
    arrives = True

    def __init__(self, addresses: list[tuple[str, int]]) -> None:
        super().__init__(addresses)
        self.late: list[tuple[str, str, str, str]] = []

    async def replace(self, cache: str, key: str, old: str, new: str) -> bool:
        if not self.is_silent:
            return await super().replace(cache, key, old, new)
        if self.arrives:
            await super().replace(cache, key, old, new)
        else:
            self.late.append((cache, key, old, new))
        raise UnavailableError("Ignite is unavailable")


@pytest.fixture
async def client(ignite: IgniteServer) -> AsyncIterator[SilentIgnite]:
    client = SilentIgnite([("127.0.0.1", ignite.port)])
    client.start()
    assert await client.wait_connected(20)
    yield client
    await client.close()


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
        await cell.undo_uncertain()
    assert cell.current == before

    client.is_silent = False
    await cell.undo_uncertain()
    for write in client.late:
        await client.replace(*write)
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
