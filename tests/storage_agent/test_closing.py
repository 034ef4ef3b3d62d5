"""Closing: whoever is cancelled meanwhile hears of it."""

import asyncio
from pathlib import Path

import pytest

from mistbow.clock import system_clock
from mistbow.ports import free_ports
from mistbow.settings import AgentSettings
from storage_agent.agent import Agent
from storage_agent.ignite_client import IgniteClient
from storage_agent.ingest.mqtt import Bridge


@pytest.mark.parametrize("part", [IgniteClient, Agent, Bridge])
async def test_who_is_cancelled_while_something_closes_is_cancelled(
    part: type, tmp_path: Path
) -> None:
    [nobody] = free_ports(1)
    settings = AgentSettings(home=tmp_path, node="n", ignite_port=nobody, collect_routes=False)
    agent = Agent(settings, system_clock)
    made: IgniteClient | Agent | Bridge = agent
    if part is IgniteClient:
        made = IgniteClient([("127.0.0.1", nobody)])
    elif part is Bridge:
        made = Bridge(agent, settings, f"mqtt://127.0.0.1:{nobody}", system_clock)
    made.start()
    await asyncio.sleep(0)  # it is under way
    closing = asyncio.create_task(made.close())
    await asyncio.sleep(0)
    closing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await closing
    await made.close()
