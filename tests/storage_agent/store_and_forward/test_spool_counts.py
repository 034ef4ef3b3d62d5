"""The number of the bodies in a spool, whose thread works in parallel with the event loop."""

import asyncio
from pathlib import Path

import pytest

from storage_agent.request_key import RequestKey
from storage_agent.store_and_forward.spool import Spool


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
