"""Cancellation of tasks, and background tasks that end early."""

import asyncio
from contextlib import suppress

import pytest
from structlog.testing import capture_logs

from mistbow.client.operation_model import problem_and_remedy
from mistbow.runtime.periodic import PeriodicTask, Schedule
from mistbow.runtime.tasks import BackgroundTasks, cancel_and_wait


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


async def fail() -> None:
    raise RuntimeError("broken")


async def end() -> None:
    """End without an error."""


async def await_cancelled() -> None:
    """Wait for something that is cancelled, and thereby end as if the caller was cancelled."""
    waited = asyncio.get_running_loop().create_future()
    waited.cancel()
    await waited


async def run_until_cancelled() -> None:
    await asyncio.Event().wait()


async def test_background_tasks_that_end_before_they_are_closed_are_problems() -> None:
    tasks = BackgroundTasks()
    with capture_logs() as events:
        for work in (fail, end, await_cancelled, run_until_cancelled):
            tasks.spawn(f"work {work.__name__}", work())
        for _ in range(3):
            await asyncio.sleep(0)
        found = tasks.problems
        await tasks.close()
    early = ["work fail", "work end", "work await_cancelled"]
    assert [each["task"] for each in events] == early
    assert {(each["event"], each["log_level"]) for each in events} == {
        ("background_task_ended", "critical")
    }
    assert str(events[0]["exc_info"]) == "broken"
    assert tasks.problems == found
    for name, text in zip(early, found, strict=True):
        problem, remedy = problem_and_remedy(text)
        assert f"'{name}'" in problem
        assert remedy.startswith("Restart this service")


async def test_error_of_a_background_task_that_is_cancelled_is_logged_and_no_problem() -> None:
    async def fail_to_end() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            raise RuntimeError("broken")

    async def ignore_cancellation() -> None:
        with suppress(asyncio.CancelledError):
            await asyncio.Event().wait()

    tasks = BackgroundTasks()
    tasks.spawn("announcement", fail_to_end())
    tasks.spawn("measurement", ignore_cancellation())
    await asyncio.sleep(0)
    with capture_logs() as events:
        await tasks.close()
        await asyncio.sleep(0)
    assert [(each["event"], each["log_level"], each["task"]) for each in events] == [
        ("background_task_close_failed", "error", "announcement")
    ]
    assert tasks.problems == []


async def test_end_of_a_periodic_task_by_a_cancelled_wait_is_logged() -> None:
    task = PeriodicTask(await_cancelled, Schedule("measurement", interval_s=1))
    with capture_logs() as events:
        task.start()
        for _ in range(4):
            await asyncio.sleep(0)
        await task.close()
    assert [(each["event"], each["task"]) for each in events] == [
        ("background_task_ended", "measurement")
    ]
