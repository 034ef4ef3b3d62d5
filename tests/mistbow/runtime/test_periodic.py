"""Periodic tasks: their waits, what they log, and how they end."""

import asyncio
import contextlib
import math
import threading
from collections.abc import Callable

import pytest
from structlog.testing import capture_logs

from mistbow.errors import UnavailableError
from mistbow.runtime.periodic import PeriodicTask, PeriodicThread, Schedule

Outcome = float | Exception | None

AWAY = UnavailableError("away")

FORMS = pytest.mark.parametrize("form", ["task", "thread"])


def waits_of(form: str, schedule: Schedule, outcomes: list[Outcome]) -> list[float]:
    """Return the waits (s) of a periodic task whose calls have these outcomes."""
    waits: list[float] = []
    left = iter(outcomes)

    def work() -> float | None:
        outcome = next(left)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    return (_waits_of_task if form == "task" else _waits_of_thread)(
        schedule, work, waits, len(outcomes)
    )


def _waits_of_task(
    schedule: Schedule, work: Callable[[], float | None], waits: list[float], calls: int
) -> list[float]:
    async def wait(_: asyncio.Event, seconds: float) -> None:
        waits.append(seconds)
        if len(waits) > calls:
            raise asyncio.CancelledError

    async def awaited() -> float | None:
        return work()

    async def run() -> None:
        with contextlib.suppress(asyncio.CancelledError):
            await PeriodicTask(awaited, schedule, wait=wait).run()

    asyncio.run(run())
    return waits


def _waits_of_thread(
    schedule: Schedule, work: Callable[[], float | None], waits: list[float], calls: int
) -> list[float]:
    ended = threading.Event()

    def wait(_: threading.Event, seconds: float) -> None:
        waits.append(seconds)
        if len(waits) > calls:
            thread.stop()
            ended.set()

    thread = PeriodicThread(work, schedule, wait=wait)
    thread.start()
    assert ended.wait(10)
    thread.stop()
    return waits


@FORMS
def test_work_is_called_after_its_interval_or_the_seconds_it_returned(form: str) -> None:
    schedule = Schedule("probe", interval_s=5, delay_s=1)
    assert waits_of(form, schedule, [None, 0.0, 2.5, math.inf]) == [1, 5, 0, 2.5, math.inf]


@FORMS
def test_errors_double_the_wait_up_to_its_bound_and_a_success_resets_it(form: str) -> None:
    schedule = Schedule("probe", interval_s=60, retry_s=1, max_retry_s=5)
    outcomes: list[Outcome] = [AWAY, AWAY, AWAY, AWAY, None, AWAY]
    assert waits_of(form, schedule, outcomes) == [0, 1, 2, 4, 5, 60, 1]


@FORMS
def test_errors_without_a_bound_are_retried_after_the_interval(form: str) -> None:
    schedule = Schedule("probe", interval_s=3)
    assert waits_of(form, schedule, [AWAY, AWAY]) == [0, 3, 3]


@FORMS
def test_failures_are_logged_once_for_each_class_of_error_and_at_their_end(form: str) -> None:
    schedule = Schedule("probe", interval_s=1, fields={"site": "a"})
    outcomes: list[Outcome] = [AWAY, AWAY, ValueError("broken"), AWAY, None, None, TimeoutError()]
    with capture_logs() as logs:
        waits_of(form, schedule, outcomes)
    assert [(each["event"], each["log_level"], each["site"]) for each in logs] == [
        ("probe_failed", "warning", "a"),
        ("probe_failed", "error", "a"),
        ("probe_recovered", "info", "a"),
        ("probe_failed", "warning", "a"),
    ]
    assert logs[0]["error"] == "away"
    assert isinstance(logs[1]["exc_info"], ValueError)
    assert logs[2]["failures"] == 4
    assert logs[3]["error"] == "TimeoutError"


async def test_task_fails_since_the_first_error_of_its_streak() -> None:
    outcomes: list[Outcome] = [None, AWAY, AWAY, None, AWAY]
    times = iter(range(100, 110))
    since: list[int | None] = []

    async def wait(_: asyncio.Event, __: float) -> None:
        since.append(task.failing_since)

    async def work() -> None:
        outcome = outcomes.pop(0) if outcomes else asyncio.CancelledError()
        if isinstance(outcome, BaseException):
            raise outcome

    task = PeriodicTask(work, Schedule("probe", interval_s=1), wait=wait, clock=lambda: next(times))
    with contextlib.suppress(asyncio.CancelledError):
        await task.run()
    assert since == [None, None, 100, 100, None, 101]


def test_a_long_streak_does_not_overflow() -> None:
    schedule = Schedule("probe", interval_s=1, max_retry_s=30)
    assert waits_of("task", schedule, [AWAY] * 2000)[-1] == 30


@pytest.mark.parametrize("schedule", [{"interval_s": math.inf}, {"interval_s": 1, "retry_s": 0}])
def test_schedule_rejects_a_retry_interval_that_is_not_positive_and_finite(
    schedule: dict[str, float],
) -> None:
    with pytest.raises(ValueError, match="retry_s must be above 0"):
        Schedule("probe", **schedule)


async def test_run_raises_an_error_that_is_not_survived() -> None:
    async def work() -> None:
        raise KeyError("broken")

    schedule = Schedule("probe", interval_s=1, survived=(UnavailableError,))
    with pytest.raises(KeyError, match="broken"):
        await PeriodicTask(work, schedule).run()


class WatchedWait:
    """The wait of a periodic task, replaced by a wait that ends only when its event is set.

    ``begun``: a queue with the duration (s) of each wait that has begun.
    """

    def __init__(self) -> None:
        self.begun: asyncio.Queue[float] = asyncio.Queue()

    async def __call__(self, event: asyncio.Event, seconds: float) -> None:
        if seconds == 0:
            return
        self.begun.put_nowait(seconds)
        await event.wait()


async def test_wake_of_a_task_ends_its_wait_and_close_ends_it() -> None:
    wait = WatchedWait()
    calls = 0

    async def work() -> float:
        nonlocal calls
        calls += 1
        if calls == 1:
            task.wake()  # during a call: one more call
        return math.inf

    task = PeriodicTask(work, Schedule("probe", interval_s=60), wait=wait)
    task.start()
    assert [await wait.begun.get() for _ in range(2)] == [math.inf, math.inf]
    assert calls == 2
    task.wake()
    assert await wait.begun.get() == math.inf
    assert calls == 3
    await task.close()
    task.wake()
    assert wait.begun.empty()


async def test_wake_of_a_task_does_not_end_the_wait_after_an_error() -> None:
    failures = 0
    waited: list[asyncio.Event] = []
    waits = asyncio.Event()

    async def wait(event: asyncio.Event, seconds: float) -> None:
        if seconds:
            waited.append(event)
            waits.set()
            await event.wait()

    async def work() -> None:
        nonlocal failures
        failures += 1
        raise AWAY

    task = PeriodicTask(work, Schedule("probe", interval_s=60), wait=wait)
    task.start()
    await waits.wait()
    task.wake()
    assert not waited[0].is_set()
    assert failures == 1
    assert task.error is AWAY
    await task.close()


async def test_wake_ends_the_real_wait_of_a_task() -> None:
    calls: asyncio.Queue[None] = asyncio.Queue()

    async def work() -> None:
        calls.put_nowait(None)

    task = PeriodicTask(work, Schedule("probe", interval_s=600))
    task.start()
    await calls.get()
    task.wake()
    await calls.get()
    await task.close()


def test_wake_of_a_thread_ends_its_wait_and_stop_ends_it() -> None:
    calls = threading.Semaphore(0)
    thread = PeriodicThread(lambda: calls.release(), Schedule("probe", interval_s=60))
    thread.start()
    assert calls.acquire(timeout=10)
    thread.wake()
    assert calls.acquire(timeout=10)
    thread.stop()
    assert not calls.acquire(blocking=False)


def test_stop_ends_the_wait_of_a_thread_after_an_error() -> None:
    called = threading.Event()

    def work() -> None:
        called.set()
        raise AWAY

    thread = PeriodicThread(work, Schedule("probe", interval_s=600))
    thread.start()
    assert called.wait(10)
    thread.stop()
    assert thread.error is AWAY
