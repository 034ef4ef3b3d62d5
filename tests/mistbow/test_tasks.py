"""Ending tasks."""

import asyncio

import pytest

from mistbow.tasks import end


async def test_tasks_are_ended_and_who_is_cancelled_meanwhile_is_cancelled() -> None:
    may_end = asyncio.Event()

    async def slow_to_end() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await may_end.wait()

    async def fails() -> None:
        raise RuntimeError("broken")

    tasks = [asyncio.create_task(slow_to_end()), asyncio.create_task(fails())]
    await asyncio.sleep(0)
    ending = asyncio.create_task(end(tasks))
    await asyncio.sleep(0)
    ending.cancel()
    with pytest.raises(asyncio.CancelledError):
        await ending
    may_end.set()
    await end(tasks)
    assert [task.cancelled() for task in tasks] == [True, False]
    assert isinstance(tasks[1].exception(), RuntimeError)
    await end([])
