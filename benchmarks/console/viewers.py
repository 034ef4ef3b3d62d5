"""The cost of many viewers of the live page of an insight, for the enabler."""

import asyncio
import time
from collections.abc import Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import httpx
import psutil
from playwright.sync_api import Browser, expect

from benchmarks.report import Figure
from tests.support.suite import Suite

T = TypeVar("T")

CLIENTS = 49
MAX_CORES = 0.3
VISITS = 1000
MAX_GROWTH_MB = 20.0
_WARM_S = 10
_MEASURED_S = 40
_PARALLEL = 10
_POLLED_S = 5
_MEGABYTE = 2**20


def measure(suite: Suite, browser: Browser, deployment_id: str, insight: str) -> Iterator[Figure]:
    """Yield the figures of one Chromium and 49 clients of the same protocol, and of visits."""
    url, process = suite.url("enabler"), suite.find("enabler")
    yield Figure("enabler without viewers", "cores", [_cores(process, _MEASURED_S / 2)])
    page = browser.new_page()
    page.goto(f"{url}/#/insights/{deployment_id}/{insight}")
    expect(page.locator(".key-row").first).to_be_visible(timeout=60_000)
    cores, before, after = _run(_watched(url, process, deployment_id, insight))
    page.close()
    yield Figure("enabler with 1 Chromium and 49 clients", "cores", [cores], at_most=MAX_CORES)
    yield Figure("growth in that time", "MB", [after - before], at_most=MAX_GROWTH_MB)
    _run(_visit(url, deployment_id, insight, VISITS // 10))
    before, files = _memory(process), process.num_fds()
    _run(_visit(url, deployment_id, insight, VISITS))
    time.sleep(_WARM_S)
    yield Figure("growth by 1,000 visits", "MB", [_memory(process) - before], at_most=MAX_GROWTH_MB)
    yield Figure("open files more after 1,000 visits", "files", [process.num_fds() - files])


def _run(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine in a thread, since the thread of Playwright has an event loop already."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, work).result()


def _cores(process: psutil.Process, seconds: float) -> float:
    start = process.cpu_times()
    time.sleep(seconds)
    end = process.cpu_times()
    return (end.user + end.system - start.user - start.system) / seconds


def _memory(process: psutil.Process) -> float:
    return float(process.memory_info().rss) / _MEGABYTE


async def _watched(
    url: str, process: psutil.Process, deployment_id: str, insight: str
) -> tuple[float, float, float]:
    """Return (cores, MB before, MB after) while 49 clients follow the page."""
    async with _client(url) as client:
        tasks = [
            asyncio.create_task(_follow(client, deployment_id, insight)) for _ in range(CLIENTS)
        ]
        await asyncio.sleep(_WARM_S)
        before = _memory(process)
        cores = await asyncio.to_thread(_cores, process, _MEASURED_S)
        after = _memory(process)
        assert not any(task.done() for task in tasks), "a client has ended"
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    return cores, before, after


def _client(url: str) -> httpx.AsyncClient:
    limits = httpx.Limits(max_connections=4 * CLIENTS)
    return httpx.AsyncClient(base_url=url, limits=limits, timeout=60)


async def _follow(client: httpx.AsyncClient, deployment_id: str, insight: str) -> None:
    """Send what the page sends: its files and the first results, then events and requests."""
    await _open(client, deployment_id, insight)

    async def poll() -> None:
        while True:
            await asyncio.sleep(_POLLED_S)
            (await client.get(f"/api/insights/{deployment_id}")).raise_for_status()

    async with asyncio.TaskGroup() as group:
        group.create_task(poll())
        async with client.stream("GET", "/api/events", params=_topics(deployment_id, insight)) as r:
            r.raise_for_status()
            async for _ in r.aiter_bytes():
                pass


async def _open(client: httpx.AsyncClient, deployment_id: str, insight: str) -> None:
    for path in ("/", "/console/app/main.js", "/api/session", f"/api/insights/{deployment_id}"):
        (await client.get(path)).raise_for_status()
    params: dict[str, str | int] = {
        "insight": insight,
        "limit": 8000,
        "from": int((time.time() - 600) * 1000),
    }
    answer = await client.get(f"/api/insights/{deployment_id}/results", params=params)
    answer.raise_for_status()


def _topics(deployment_id: str, insight: str) -> dict[str, str]:
    return {"topics": "states,decisions", "insights": f"{deployment_id}/{insight}"}


async def _visit(url: str, deployment_id: str, insight: str, number: int) -> None:
    """Open the page and leave it again, ``number`` times."""
    async with _client(url) as client:

        async def visits(share: int) -> None:
            for _ in range(share):
                await _open(client, deployment_id, insight)
                params = _topics(deployment_id, insight)
                async with client.stream("GET", "/api/events", params=params) as answer:
                    answer.raise_for_status()
                    async for _ in answer.aiter_bytes():
                        break

        await asyncio.gather(*(visits(number // _PARALLEL) for _ in range(_PARALLEL)))
