"""Adaptive sampling while the storage agent is away: what is left out stays counted, once."""

import asyncio
import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from mistbow.client.agent import AgentClient
from mistbow.client.agent_model import Point
from mistbow.client.async_agent import AsyncAgentClient
from mistbow.clock import system_clock
from mistbow.ignite.server import IgniteServer
from mistbow.monitoring.adapting import Adapting
from mistbow.monitoring.agent import MonitoringAgent
from mistbow.monitoring.buffer import Buffer
from mistbow.monitoring.main import asked_of
from mistbow.sampling.adaptive import STREAM, stands_for
from mistbow.streams.schemas import EVENTS, RAW
from tests.support.services import Service, storage_agent
from tests.support.waiting import aeventually

INTERVAL_MS = 200


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    with IgniteServer(tmp_path) as ignite, storage_agent(tmp_path, ignite.port, node="n") as one:
        yield one


class Steady:
    """Yields a series whose values stand."""

    name = "steady"

    def collect(self, now_ms: int) -> list[Point]:
        return [Point(metric="m", entity="e", ts=now_ms, value=1.0)]


def stored(client: AgentClient) -> list[tuple[int, int]]:
    """Return when each value was taken, and for how many it stands."""
    rows = client.read(RAW, match={"metric": ["m"]}).table.to_pylist()
    return sorted((row["ts"], stands_for(json.loads(row["attributes"]))) for row in rows)


def ask(client: AgentClient) -> None:
    """Note what an enabler does."""
    client.create_stream(STREAM, EVENTS)
    asked = {"m": {"confidence": 0.9, "longest_ms": 10 * INTERVAL_MS, "whole": False}}
    epoch = client.claim(STREAM).epoch
    client.advance(STREAM, epoch, attributes={"cloud": asked})


@pytest.mark.soak
async def test_what_stands_is_counted_once_though_the_storage_agent_was_away(
    service: Service,
) -> None:
    client, sink = AgentClient(service.url), AsyncAgentClient(service.url)
    ask(client)
    agent = MonitoringAgent(
        [Steady()],
        sink,
        Buffer(1000),
        Adapting(INTERVAL_MS, {}),
        asked_of(sink),
        interval_ms=INTERVAL_MS,
        clock=system_clock,
    )
    running = asyncio.create_task(agent.run())

    async def thinned(since: int) -> None:
        async def said() -> bool:
            held = await asyncio.to_thread(stored, client)
            return sum(ts > since and times == 10 for ts, times in held) >= 2

        await aeventually(said, what="values that stand for long")

    await thinned(0)
    service.kill()
    away = system_clock()

    async def waits() -> bool:
        return agent.waits_for is not None

    await aeventually(waits, what="points wait")
    await asyncio.to_thread(service.start)
    await thinned(away)
    assert not running.done()
    running.cancel()
    with suppress(asyncio.CancelledError):
        await running
    await sink.close()
    held = stored(client)
    client.close()
    (first, _), (last, _) = held[0], held[-1]
    counted = sum(times for _, times in held[:-1])
    assert counted == pytest.approx((last - first) / INTERVAL_MS, abs=2)
    assert len(held) < counted / 2
