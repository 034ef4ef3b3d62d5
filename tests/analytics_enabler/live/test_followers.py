"""Many clients of live events at once: none misses a result, and they cost little."""

import asyncio
import json
import time
from pathlib import Path

import httpx
import psutil
import pyarrow as pa
import pytest

from analytics.client.enabler import EnablerClient
from mistbow.client.agent import AgentClient
from mistbow.streams.schemas import RESULT_ROWS
from tests.support.conditions import eventually
from tests.support.services import service

FOLLOWERS = 200
KEYS = 50
TICKS = 20
RESULTS = "results/all.fair"


async def follow(client: httpx.AsyncClient, url: str, ready: asyncio.Event) -> int:
    """Return the number of results that one client receives, up to the last one."""
    received = 0
    async with client.stream("GET", url) as response:
        assert response.is_success
        kind = ""
        async for line in response.aiter_lines():
            if line.startswith("event: "):
                kind = line.removeprefix("event: ")
            elif line.startswith("data: ") and kind == "state":
                ready.set()
            elif line.startswith("data: ") and kind in ("result", "results"):
                data = json.loads(line.removeprefix("data: "))
                received += len(data.get("results", [data]))
                if received >= KEYS * TICKS:
                    return received
    raise AssertionError(f"the stream ended after {received} results")


@pytest.mark.soak
async def test_two_hundred_clients_receive_all_results(
    agent: AgentClient, agent_url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with service("analytics_enabler", "enabler_port", home=tmp_path, agent_url=agent_url) as one:
        eventually(lambda: httpx.get(f"{one.url}/readyz").is_success, timeout=60)
        enabler = EnablerClient(one.url)
        deployment = enabler.submit("a = COMPUTE AVG(x) BY entityID EVERY 1 s").deployment_id
        [insight] = enabler.show(deployment).insights
        agent.create_stream(RESULTS, RESULT_ROWS)
        process = psutil.Process(one.pid)
        url = f"{one.url}/api/events?topics=states&insights={deployment}"
        limits = httpx.Limits(max_connections=FOLLOWERS + 10)
        async with httpx.AsyncClient(limits=limits, timeout=120) as client:
            ready = [asyncio.Event() for _ in range(FOLLOWERS)]
            before = process.memory_info().rss
            tasks = [asyncio.create_task(follow(client, url, each)) for each in ready]
            await asyncio.gather(*(each.wait() for each in ready))
            cpu, began = sum(process.cpu_times()[:2]), time.monotonic()
            connected = process.memory_info().rss
            for tick in range(TICKS):
                ts = insight.first_tick + 1000 * tick
                rows = [
                    {
                        **{"insight": insight.uid, "key": f'{{"entityID":"e-{n}"}}', "ts": ts},
                        **{"value": float(n), "revision": 0, "computed_at": ts},
                    }
                    for n in range(KEYS)
                ]
                batch = pa.RecordBatch.from_pylist(rows, schema=RESULT_ROWS)
                await asyncio.to_thread(agent.append, RESULTS, batch)
                await asyncio.sleep(1)
            assert await asyncio.gather(*tasks) == [KEYS * TICKS] * FOLLOWERS
            span = time.monotonic() - began
            used = sum(process.cpu_times()[:2]) - cpu
            after = process.memory_info().rss
        connections = len([c for c in process.net_connections() if c.status == "ESTABLISHED"])
        enabler.close()
    with capsys.disabled():
        print(
            f"\n{FOLLOWERS} followers, {KEYS} results/s: {used / span:.2f} cores, "
            f"memory {before / 2**20:.0f} MB before, {connected / 2**20:.0f} MB connected, "
            f"{after / 2**20:.0f} MB after; {connections} connections afterwards"
        )
