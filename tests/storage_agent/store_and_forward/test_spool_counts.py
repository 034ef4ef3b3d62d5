"""The number of the bodies in a spool, whose thread works in parallel with the event loop."""

import asyncio
import sqlite3
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from mistbow.client.agent_model import Point
from storage_agent.http.points import PutBody
from storage_agent.request_key import RequestKey
from storage_agent.settings import AgentSettings
from storage_agent.store_and_forward.spool import Spool
from storage_agent.store_and_forward.store_and_forward import PointWriter, StoreAndForward


async def finish_work(spool: Spool) -> None:
    """Let all tasks begin, and wait until the thread is idle; the loop sees no result before."""
    await asyncio.sleep(0)
    spool._thread.submit(lambda: None).result()


async def test_spool_counts_a_body_once_although_another_is_set_aside_before_the_loop_sees_it(
    tmp_path: Path,
) -> None:
    spool = Spool(tmp_path / "spool.db", 2**20)
    await spool.append(RequestKey("refused"), b"[]", 1)
    [refused] = await spool.next(1, 9)
    work = [
        asyncio.create_task(spool.append(RequestKey("new"), b"{}", 1)),
        asyncio.create_task(spool.set_aside(refused, "the store refuses it")),
    ]
    await finish_work(spool)
    await asyncio.gather(*work)
    assert (spool.bodies, spool._file.bytes) == (1, 2)
    await spool.remove(await spool.next(9, 99))
    assert (spool.bodies, spool._file.bytes) == (0, 0)
    await spool.close()


async def test_drain_continues_at_once_after_damaged_bodies_until_none_is_left(
    tmp_path: Path,
) -> None:
    settings, path = AgentSettings(home=tmp_path), tmp_path / "agent" / "spool.db"
    writer: Any = SimpleNamespace()  # It is never used: no body is intact.
    writers: list[PointWriter] = []
    points = StoreAndForward(settings, lambda: writers[0] if writers else None, lambda _: False)
    for number in range(60):
        await points.put(PutBody([Point("m", "e", number, 1)]), RequestKey(f"{number}"))
    with sqlite3.connect(path) as file:
        file.execute("update bodies set body = ?", (b"changed",))
    file.close()
    writers.append(writer)
    pauses = [await points.drain() for _ in range(4)]
    assert (pauses, points.spooled_bodies) == ([0, 0, 0, None], 0)
    await points.close()


async def test_spool_counts_bodies_although_the_caller_is_cancelled(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "spool.db", 2**20)

    async def cancel(work: asyncio.Task[None]) -> None:
        await finish_work(spool)
        work.cancel()
        with pytest.raises(asyncio.CancelledError):
            await work

    await cancel(asyncio.create_task(spool.append(RequestKey("a"), b"{}", 1)))
    assert spool.bodies == 1
    done = await spool.next(9, 99)
    await cancel(asyncio.create_task(spool.remove(done)))
    assert (spool.bodies, await spool.next(9, 99)) == (0, [])
    await spool.close()
