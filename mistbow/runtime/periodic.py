"""Periodic tasks that survive errors: one class for asyncio, one class with a separate thread.

The two classes call ``work`` repeatedly, according to the same rules. A streak is the series of
errors since the last success.

- After a success, the next call comes after ``interval_s``, or after the number of seconds that
  ``work`` returned. After 0, the next call comes at once; after ``math.inf``, the next call waits
  for ``wake()``.
- After an error, the next call comes after ``retry_s``. This wait is doubled with each further
  error of the streak, up to ``max_retry_s``.
- ``wake()`` ends the wait after a success, not the wait after an error. ``wake()`` during a call of
  ``work`` causes one more call.
- The first error of a streak is logged as ``<name>_failed``: an error of a class in ``expected`` as
  a warning, any other error as an error with a traceback. A later error in the streak is logged if
  no earlier error had the same class. The first success after a streak is logged as
  ``<name>_recovered``.
"""

import asyncio
import contextlib
import math
import threading
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

from mistbow.clock import Clock, system_clock
from mistbow.errors import MistbowError
from mistbow.runtime.tasks import BackgroundTasks, cancel_and_wait, log_early_end
from mistbow.telemetry import get_logger

log = get_logger(__name__)


@dataclass(frozen=True)
class Schedule:
    """The intervals of a periodic task's calls, and the name in its log events."""

    name: str
    """The task's name (a noun), also in the log events ``<name>_failed`` and ``<name>_recovered``.
    """
    interval_s: float
    """Seconds from the end of a successful call to the next call.

    ``math.inf``: the next call waits for ``wake()``.
    """
    delay_s: float = 0.0
    """Seconds from the start of the task to the first call."""
    retry_s: float | None = None
    """Seconds from the first error of a streak to the next call; None: ``interval_s``."""
    max_retry_s: float = 0.0
    """The maximum of the repeatedly doubled ``retry_s``; a value up to ``retry_s``: no doubling."""
    expected: tuple[type[Exception], ...] = (MistbowError, TimeoutError)
    """Classes of errors that are expected to pass: these errors are logged as warnings."""
    survived: tuple[type[Exception], ...] = (Exception,)
    """Classes of errors that do not end the task; ``run`` raises all other errors."""
    fields: Mapping[str, object] = field(default_factory=dict)
    """Fields that are added to each log event."""

    def __post_init__(self) -> None:
        if not 0 < self.first_retry_s < math.inf:
            raise ValueError(
                f"{self.name}: retry_s must be above 0 and finite (got {self.first_retry_s})"
            )

    @property
    def first_retry_s(self) -> float:
        """The seconds between the first error of a streak and the next call."""
        return self.interval_s if self.retry_s is None else self.retry_s


@dataclass
class _Streak:
    """A streak of errors, which are the errors since the last success; counted for the back-off.

    ``since``: the time (ms) of the first error.
    """

    schedule: Schedule
    clock: Clock = system_clock
    failures: int = 0
    error: Exception | None = None
    since: int | None = None
    logged: set[type[Exception]] = field(default_factory=set)

    def end(self) -> None:
        """End the streak after a success, and log the recovery."""
        if self.error is not None:
            event = f"{self.schedule.name}_recovered"
            log.info(event, failures=self.failures, **self.schedule.fields)
        self.error, self.since, self.failures = None, None, 0
        self.logged.clear()

    def add(self, error: Exception) -> float:
        """Log and count an error; return the seconds until the next call."""
        schedule = self.schedule
        if type(error) not in self.logged:
            self.logged.add(type(error))
            event = f"{schedule.name}_failed"
            if isinstance(error, schedule.expected):
                log.warning(event, error=str(error) or type(error).__name__, **schedule.fields)
            else:
                log.error(event, exc_info=error, **schedule.fields)
        first = schedule.first_retry_s
        # The exponent is bounded: a float has no power of 2 above 1,023.
        doubled = first * 2.0 ** min(self.failures, 100)
        self.error = error
        if self.since is None:
            self.since = self.clock()
        self.failures += 1
        return min(doubled, max(first, schedule.max_retry_s))


async def _wait(event: asyncio.Event, seconds: float) -> None:
    if math.isinf(seconds):
        await event.wait()
    elif seconds <= 0:
        await asyncio.sleep(0)
    else:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await event.wait()


class PeriodicTask:
    """Calls a coroutine function periodically, according to the rules in the module's docstring.

    Use ``start`` and ``close``, or ``spawn_in``, or await ``run`` in the caller's own task.
    ``wait(event, seconds)`` waits until the event is set or the seconds have passed; tests replace
    this function.

    >>> async def example() -> list[str]:
    ...     calls: list[str] = []
    ...     async def measure() -> float:
    ...         calls.append("measured")
    ...         return 0 if len(calls) < 2 else math.inf
    ...     task = PeriodicTask(measure, Schedule("measurement", interval_s=60))
    ...     task.start()
    ...     await asyncio.sleep(0.01)
    ...     await task.close()
    ...     return calls
    >>> asyncio.run(example())
    ['measured', 'measured']
    """

    def __init__(
        self,
        work: Callable[[], Awaitable[float | None]],
        schedule: Schedule,
        *,
        wait: Callable[[asyncio.Event, float], Awaitable[None]] = _wait,
        clock: Clock = system_clock,
    ) -> None:
        self._work = work
        self._schedule = schedule
        self._streak = _Streak(schedule, clock)
        self._wait = wait
        self._woken = asyncio.Event()
        self._never = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    @property
    def error(self) -> Exception | None:
        """The last error of the current streak; None: no error occurred since the last success."""
        return self._streak.error

    @property
    def failing_since(self) -> int | None:
        """The time (ms) of the first error of the current streak; None: as for ``error``."""
        return self._streak.since

    def start(self) -> None:
        """Start a task that calls ``work`` periodically, and that ``close`` cancels."""
        self._task = asyncio.create_task(self.run(), name=self._schedule.name)
        self._task.add_done_callback(log_early_end)

    def spawn_in(self, tasks: BackgroundTasks) -> None:
        """Start a task that calls ``work`` periodically, and that ``tasks`` cancels and reports."""
        tasks.spawn(self._schedule.name.replace("_", " "), self.run())

    async def close(self) -> None:
        """Cancel the task that ``start`` started, and wait for the end of the task."""
        if self._task is not None:
            await cancel_and_wait([self._task])

    def wake(self) -> None:
        """Call ``work`` now instead of after the interval, unless the last call failed; not
        thread-safe.
        """
        self._woken.set()

    def end_streak(self) -> None:
        """End a streak of errors: ``work`` calls this if it succeeds long before it returns."""
        self._streak.end()

    async def run(self) -> None:
        """Call ``work`` periodically until the caller's task is cancelled."""
        delay = self._schedule.delay_s
        while True:
            await self._wait(self._woken if self._streak.error is None else self._never, delay)
            self._woken.clear()
            try:
                returned = await self._work()
            except self._schedule.survived as error:
                delay = self._streak.add(error)
            else:
                self._streak.end()
                delay = self._schedule.interval_s if returned is None else returned


def _wait_in_thread(event: threading.Event, seconds: float) -> None:
    event.wait(None if math.isinf(seconds) else seconds)


class PeriodicThread:
    """Calls a function periodically in a separate thread; the module's docstring has the rules.

    ``wait(event, seconds)`` waits until the event is set or the seconds have passed; tests replace
    this function.

    >>> done = threading.Event()
    >>> thread = PeriodicThread(done.set, Schedule("measurement", interval_s=60))
    >>> thread.start()
    >>> done.wait(10)
    True
    >>> thread.stop()
    """

    def __init__(
        self,
        work: Callable[[], float | None],
        schedule: Schedule,
        *,
        wait: Callable[[threading.Event, float], object] = _wait_in_thread,
    ) -> None:
        self._work = work
        self._schedule = schedule
        self._streak = _Streak(schedule)
        self._wait = wait
        self._woken = threading.Event()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=schedule.name, daemon=True)

    @property
    def error(self) -> Exception | None:
        """The last error of the current streak; None: no error occurred since the last success."""
        return self._streak.error

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Stop the thread after the present call of ``work``, and wait for the end of the thread.

        ``work`` itself may call ``stop``, which then does not wait.
        """
        self._stopping.set()
        self._woken.set()
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join()

    def wake(self) -> None:
        """Call ``work`` now instead of after the interval, unless the last call failed;
        thread-safe.
        """
        self._woken.set()

    def _run(self) -> None:
        delay = self._schedule.delay_s
        while True:
            self._wait(self._woken if self._streak.error is None else self._stopping, delay)
            self._woken.clear()
            if self._stopping.is_set():
                return
            try:
                returned = self._work()
            except self._schedule.survived as error:
                delay = self._streak.add(error)
            else:
                self._streak.end()
                delay = self._schedule.interval_s if returned is None else returned
