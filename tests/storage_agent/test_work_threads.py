"""The threads for long work: few, and neither a body nor a probe of the agent needs one of them."""

import asyncio
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from storage_agent.agent.disk_alarm import DiskAlarm
from storage_agent.store_and_forward.spool import Spool
from storage_agent.work_threads import ingest_beside, limit_work_threads


async def _decode(_: Path) -> None:
    assert await ingest_beside(lambda: "decoded") == "decoded"


async def _damaged(home: Path) -> None:
    spool = Spool(home / "spool", 2**20)
    assert await spool.damaged() == []
    await spool.close()


async def _measure_disk(home: Path) -> None:
    alarm = DiskAlarm(home, 1)
    await alarm.check()
    assert alarm.size > 0


@pytest.mark.parametrize("work", [_decode, _damaged, _measure_disk])
async def test_short_work_is_done_while_long_reads_use_all_threads(
    work: Callable[[Path], Awaitable[None]], tmp_path: Path
) -> None:
    limit_work_threads()
    ends, lock, running, most = threading.Event(), threading.Lock(), 0, 0
    loop, begun = asyncio.get_running_loop(), asyncio.Semaphore(0)

    def long_read() -> None:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        loop.call_soon_threadsafe(begun.release)
        ends.wait(30)
        with lock:
            running -= 1

    reads = [asyncio.ensure_future(asyncio.to_thread(long_read)) for _ in range(20)]
    try:
        async with asyncio.timeout(10):
            await begun.acquire()
            await begun.acquire()
            await work(tmp_path)
    finally:
        ends.set()
        await asyncio.gather(*reads)
    assert most == 2
