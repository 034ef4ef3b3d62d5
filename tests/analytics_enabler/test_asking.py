"""WITH ADAM, from the enabler by way of the storage agent to the monitoring agent, and back."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import msgspec

from analytics_enabler.asking import asked_by
from mistbow.client.agent import AgentClient, AsyncAgentClient
from mistbow.client.agent_model import Point
from mistbow.client.enabler import EnablerClient
from mistbow.clock import system_clock
from mistbow.errors import NotFoundError
from mistbow.monitoring.adapting import Adapting
from mistbow.monitoring.agent import MonitoringAgent
from mistbow.monitoring.buffer import Buffer
from mistbow.monitoring.main import asked_of
from mistbow.sampling.adaptive import STREAM, Asked
from tests.analytics_enabler.conftest import StartEnabler
from tests.analytics_enabler.support import deployment
from tests.support.waiting import eventually

METRIC = "room.temperature"
INTERVAL_MS = 50
STEADY = f"steady = COMPUTE AVG({METRIC}, 6 s) EVERY 1 s WITH ADAM AND CONFIDENCE 0.9"
PLAIN = f"plain = COMPUTE MAX({METRIC}, 1 s)"


def test_the_surest_and_shortest_counts_and_who_does_not_say_it_reads_all() -> None:
    text = (
        "a = COMPUTE AVG(x, 1 MINUTE) + MAX(y, 30 s) EVERY 1 s WITH ADAM AND CONFIDENCE 0.8;"
        "b = COMPUTE RUNNING_MAX(x) WHEN MAX(y, 12 s) > 1 EVERY 1 s WITH ADAM;"
        "f: STREAM FROM stream(name='w'); d = COMPUTE SUM(x FROM (f)) EVERY 1 s;"
        "c = COMPUTE SUM(y) + CORRELATION(x, z) EVERY 1 s"
    )
    only, both = text.rpartition(";")[0], text
    assert asked_by(deployment(only).running) == {
        "x": Asked(0.95, 10_000),
        "y": Asked(0.95, 2000),
    }
    assert asked_by(deployment(both).running) == {
        "x": Asked(0.95, 10_000, whole=True),
        "y": Asked(0.95, 2000, whole=True),
    }


class Thermometer:
    """Always reads the same."""

    name = "thermometer"

    def collect(self, now_ms: int) -> list[Point]:
        return [Point(metric=METRIC, entity="room", ts=now_ms, value=20)]


@contextmanager
def monitored(url: str) -> Iterator[None]:
    """Run a monitoring agent while the ``with`` lasts."""

    async def run() -> None:
        client = AsyncAgentClient(url)
        agent = MonitoringAgent(
            [Thermometer()],
            client,
            Buffer(1000),
            Adapting(INTERVAL_MS, {}),
            asked_of(client),
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


def test_what_insights_ask_for_is_measured_so_whoever_restarts(
    agent: AgentClient, agent_url: str, start_enabler: StartEnabler
) -> None:
    def noted() -> dict[str, Any]:
        try:
            return agent.info(STREAM).attributes
        except NotFoundError:
            return {}

    def latest() -> list[int | None]:
        """Return how long each of the newest points stands, None where it does not say."""
        head = agent.info("raw").head
        rows = agent.rows("raw", max(0, head - 3), match={"metric": [METRIC]}).rows
        told = [msgspec.json.decode(row["attributes"]) for row in rows]
        return [each.get("holds_ms") for each in told]

    def rests() -> bool:
        return all(each is not None and each >= 3 * INTERVAL_MS for each in latest())

    with monitored(agent_url), start_enabler() as url:
        enabler = EnablerClient(url)
        eventually(lambda: latest() == [None] * 3, what="all is sent")
        assert noted() == {}
        steady = enabler.submit(STEADY).deployment_id
        eventually(rests, what="few values are sent")
        plain = enabler.submit(PLAIN).deployment_id
        eventually(lambda: latest().count(0) > 1, what="all is sent, what is not needed marked")
        assert noted() == {"n1": {METRIC: {"confidence": 0.9, "longest_ms": 1000, "whole": True}}}
        enabler.delete(plain)
        eventually(rests)
        enabler.close()
    assert noted() == {"n1": {METRIC: {"confidence": 0.9, "longest_ms": 1000, "whole": False}}}

    with monitored(agent_url):
        eventually(rests, what="it goes by the note")
        with start_enabler() as url:
            enabler = EnablerClient(url)
            enabler.delete(steady)
            eventually(lambda: latest() == [None] * 3)
            enabler.close()
    assert noted() == {}
