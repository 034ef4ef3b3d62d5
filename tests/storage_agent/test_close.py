"""Closing an agent's parts while the closing task is cancelled."""

import asyncio
from pathlib import Path

import pytest

from ignite_server.ports import free_ports
from mistbow.clock import system_clock
from storage_agent.agent.agent import Agent
from storage_agent.ignite.client import IgniteClient
from storage_agent.ingest.mqtt import MqttBridge
from storage_agent.settings import AgentSettings


@pytest.mark.parametrize("part", [IgniteClient, Agent, MqttBridge])
async def test_close_that_is_cancelled_raises_cancelled_error(part: type, tmp_path: Path) -> None:
    [nobody] = free_ports(1)
    settings = AgentSettings(home=tmp_path, node="n", ignite_port=nobody, collect_routes=False)
    agent = Agent(settings, system_clock)
    closeable: IgniteClient | Agent | MqttBridge = agent
    if part is IgniteClient:
        closeable = IgniteClient([("127.0.0.1", nobody)])
    elif part is MqttBridge:
        closeable = MqttBridge(agent, settings, f"mqtt://127.0.0.1:{nobody}", system_clock)
    closeable.start()
    await asyncio.sleep(0)  # let it begin
    closing = asyncio.create_task(closeable.close())
    await asyncio.sleep(0)
    closing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await closing
    await closeable.close()
