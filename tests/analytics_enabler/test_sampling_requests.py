"""Insights WITH ADAM: sampling requests from the enabler reach the monitoring agent."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import msgspec

from analytics.client.enabler import EnablerClient
from analytics_enabler.sampling_requests import sampling_requests_of
from mistbow.client import Point
from mistbow.client.agent import AgentClient, AsyncAgentClient
from mistbow.clock import system_clock
from mistbow.errors import NotFoundError
from mistbow.sampling.adaptive import SAMPLING_STREAM, SamplingRequest
from monitoring_agent.adaptive_sampling import AdaptiveSampler
from monitoring_agent.agent import MonitoringAgent
from monitoring_agent.buffer import Buffer
from monitoring_agent.main import request_reader
from tests.analytics_enabler.conftest import StartEnabler
from tests.analytics_enabler.support import deployment
from tests.support.conditions import eventually

METRIC = "room.temperature"
INTERVAL_MS = 50
STEADY = f"steady = COMPUTE AVG({METRIC}, 6 s) EVERY 1 s WITH ADAM AND CONFIDENCE 0.9"
PLAIN = f"plain = COMPUTE MAX({METRIC}, 1 s)"


def test_request_has_highest_confidence_and_shortest_window() -> None:
    text = (
        "a = COMPUTE AVG(x, 1 MINUTE) + MAX(y, 30 s) EVERY 1 s WITH ADAM AND CONFIDENCE 0.8;"
        "b = COMPUTE RUNNING_MAX(x) WHEN MAX(y, 12 s) > 1 EVERY 1 s WITH ADAM;"
        "f: STREAM FROM stream(name='w'); d = COMPUTE SUM(x FROM (f)) EVERY 1 s;"
        "c = COMPUTE SUM(y) + CORRELATION(x, z) EVERY 1 s"
    )
    only, both = text.rpartition(";")[0], text
    assert sampling_requests_of(deployment(only).running) == {
        "x": SamplingRequest(0.95, 10_000),
        "y": SamplingRequest(0.95, 2000),
    }
    assert sampling_requests_of(deployment(both).running) == {
        "x": SamplingRequest(0.95, 10_000, all_values=True),
        "y": SamplingRequest(0.95, 2000, all_values=True),
    }


class Thermometer:
    """A collector of one series with a constant value."""

    name = "thermometer"

    def collect(self, now_ms: int) -> list[Point]:
        return [Point(metric=METRIC, entity="room", ts=now_ms, value=20)]


@contextmanager
def monitored(url: str) -> Iterator[None]:
    """Run a monitoring agent of the storage agent at ``url`` within the ``with``."""

    async def run() -> None:
        client = AsyncAgentClient(url)
        agent = MonitoringAgent(
            [Thermometer()],
            client,
            Buffer(1000),
            AdaptiveSampler(INTERVAL_MS, {}),
            request_reader(client),
            interval_ms=INTERVAL_MS,
            clock=system_clock,
        )
        with suppress(asyncio.CancelledError):
            await agent.run()
        await client.close()

    loop = asyncio.new_event_loop()
    running = loop.create_task(run())
    thread = threading.Thread(target=loop.run_until_complete, args=(running,), daemon=True)
    thread.start()
    try:
        yield
    finally:
        loop.call_soon_threadsafe(running.cancel)
        thread.join(20)


def test_monitoring_agent_applies_sampling_requests_after_restarts(
    agent: AgentClient, agent_url: str, start_enabler: StartEnabler
) -> None:
    def noted() -> dict[str, Any]:
        try:
            return agent.info(SAMPLING_STREAM).attributes
        except NotFoundError:
            return {}

    def latest() -> list[int | None]:
        """Return the label ``holds_ms`` of each of the latest three points (None: no label)."""
        head = agent.info("raw").head
        rows = agent.rows("raw", max(0, head - 3), match={"metric": [METRIC]}).rows
        decoded = [msgspec.json.decode(row["attributes"]) for row in rows]
        return [each.get("holds_ms") for each in decoded]

    def rests() -> bool:
        return all(each is not None and each >= 3 * INTERVAL_MS for each in latest())

    with monitored(agent_url), start_enabler() as url:
        enabler = EnablerClient(url)
        eventually(lambda: latest() == [None] * 3, what="all values are sent")
        assert noted() == {}
        steady = enabler.submit(STEADY).deployment_id
        eventually(rests, what="few values are sent")
        plain = enabler.submit(PLAIN).deployment_id
        eventually(lambda: latest().count(0) > 1, what="extra values are marked")
        assert noted() == {"n1": {METRIC: {"confidence": 0.9, "longest_ms": 1000, "whole": True}}}
        enabler.delete(plain)
        eventually(rests)
        enabler.close()
    assert noted() == {"n1": {METRIC: {"confidence": 0.9, "longest_ms": 1000, "whole": False}}}

    with monitored(agent_url):
        eventually(rests, what="few values are sent by the stored request")
        with start_enabler() as url:
            enabler = EnablerClient(url)
            enabler.delete(steady)
            eventually(lambda: latest() == [None] * 3)
            enabler.close()
    assert noted() == {}
