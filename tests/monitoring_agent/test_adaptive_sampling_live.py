"""Adaptive sampling across an outage of the storage agent."""

import asyncio
import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from ignite_server.server import IgniteServer
from mistbow.client import Point
from mistbow.client.agent import AgentClient, AsyncAgentClient
from mistbow.clock import system_clock
from mistbow.sampling.adaptive import SAMPLING_STREAM, sampling_weight
from mistbow.streams.schemas import EVENTS, RAW
from monitoring_agent.adaptive_sampling import AdaptiveSampler
from monitoring_agent.agent import MonitoringAgent
from monitoring_agent.buffer import Buffer
from monitoring_agent.main import request_reader
from tests.support.conditions import aeventually
from tests.support.services import Service, storage_agent

INTERVAL_MS = 200


@pytest.fixture
def service(tmp_path: Path, processes: None) -> Iterator[Service]:
    with IgniteServer(tmp_path) as ignite, storage_agent(tmp_path, ignite.port, node="n") as one:
        yield one


class Steady:
    """A collector of one series with a constant value."""

    name = "steady"

    def collect(self, now_ms: int) -> list[Point]:
        return [Point(metric="m", entity="e", ts=now_ms, value=1.0)]


def stored(client: AgentClient) -> list[tuple[int, int]]:
    """Return the time (ms) and the sampling weight of each stored point."""
    rows = client.read(RAW, match={"metric": ["m"]}).table.to_pylist()
    return sorted((row["ts"], sampling_weight(json.loads(row["attributes"]))) for row in rows)


def ask(client: AgentClient) -> None:
    """Store a sampling request as an enabler does."""
    client.create_stream(SAMPLING_STREAM, EVENTS)
    asked = {"m": {"confidence": 0.9, "longest_ms": 10 * INTERVAL_MS, "whole": False}}
    epoch = client.claim(SAMPLING_STREAM).epoch
    client.advance(SAMPLING_STREAM, epoch, attributes={"cloud": asked})


@pytest.mark.soak
async def test_weights_count_each_value_once_across_an_outage(
    service: Service,
) -> None:
    client, sink = AgentClient(service.url), AsyncAgentClient(service.url)
    ask(client)
    agent = MonitoringAgent(
        [Steady()],
        sink,
        Buffer(1000),
        AdaptiveSampler(INTERVAL_MS, {}),
        request_reader(sink),
        interval_ms=INTERVAL_MS,
        clock=system_clock,
    )
    running = asyncio.create_task(agent.run())

    async def thinned(since: int) -> None:
        async def is_stored() -> bool:
            points = await asyncio.to_thread(stored, client)
            return sum(ts > since and times == 10 for ts, times in points) >= 2

        await aeventually(is_stored, what="values that stand for long")

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
    points = stored(client)
    client.close()
    (first, _), (last, _) = points[0], points[-1]
    counted = sum(times for _, times in points[:-1])
    assert counted == pytest.approx((last - first) / INTERVAL_MS, abs=2)
    assert len(points) < counted / 2
