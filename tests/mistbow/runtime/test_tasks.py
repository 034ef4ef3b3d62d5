"""Cancellation of tasks."""

import asyncio

import pytest

from mistbow.runtime.tasks import cancel_and_wait


async def test_cancel_and_wait_ends_tasks_and_lets_its_caller_be_cancelled() -> None:
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
    ending = asyncio.create_task(cancel_and_wait(tasks))
    await asyncio.sleep(0)
    ending.cancel()
    with pytest.raises(asyncio.CancelledError):
        await ending
    may_end.set()
    await cancel_and_wait(tasks)
    assert [task.cancelled() for task in tasks] == [True, False]
    assert isinstance(tasks[1].exception(), RuntimeError)
    await cancel_and_wait([])
