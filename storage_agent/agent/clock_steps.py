"""Steps of the machine's clock, such as those of a wrong time server."""

import time
from collections import deque
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from mistbow.auth.json_files import read_json_file, write_json_file
from mistbow.clock import MAX_AHEAD_MS, Clock
from mistbow.errors import InvalidRequestError
from mistbow.telemetry import get_logger

log = get_logger(__name__)

_MAX_SLEW_MS = 60_000
_CONFIRMATION_S = 24 * 3600.0
_MAX_STEPS = 100
_STEPS = msgspec.json.Decoder(list[tuple[int, int]])

Ago = Callable[[int], int]
"""A function that returns what a clock (ms since the epoch) showed some time (ms) ago."""


def without_steps(clock: Clock) -> Ago:
    """Return a function that returns the earlier time of a clock without steps."""
    return lambda ms: clock() - ms


def _uptime_s() -> float:
    """Return the seconds since the start of the machine, with the time in which it was suspended.

    Without this time, each suspension would look like a step of the clock.
    """
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


class ExpiryClock:
    """The clock by which rows expire: a step forward counts only after it has lasted for a day.

    Otherwise, a clock that is wrong for a moment could expire the data of a month. During this day,
    this clock continues without the step. A further step restarts the day. A step back counts at
    once. ``monotonic``: returns the seconds since a fixed time, which no step affects. ``file``:
    stores the steps for a restart; None: the steps are not stored.
    """

    def __init__(
        self,
        clock: Clock,
        monotonic: Callable[[], float] = _uptime_s,
        file: Path | None = None,
    ) -> None:
        self._clock = clock
        self._monotonic = monotonic
        self._file = file
        self._followed = clock(), monotonic()
        """The last time (ms) at which this clock followed the machine's clock, and when (s)."""
        self._stepped_at = 0.0
        self._step: int | None = None
        """The pending step forward (ms)."""
        self._steps = deque(self._stored_steps(), _MAX_STEPS)
        """The confirmed steps forward: this clock's time (ms) before and after each."""

    def __call__(self) -> int:
        """Return the time (ms) by which rows expire."""
        now, read_at = self._clock(), self._monotonic()
        followed, followed_at = self._followed
        usual = followed + int((read_at - followed_at) * 1000)
        step = now - usual
        if step <= _MAX_SLEW_MS:
            return self._follow(now, read_at)
        if self._step is None or step > self._step + _MAX_SLEW_MS:
            self._step, self._stepped_at = step, read_at
            log.warning("clock_stepped_forward", step_s=step // 1000)
            # A restart accepts the clock as it is, and so confirms the step.
            self._store((*self._steps, (usual, now)))
        elif read_at - self._stepped_at >= _CONFIRMATION_S:
            self._steps.append((usual, now))
            return self._follow(now, read_at)
        self._step = min(self._step, step)
        return usual

    def ago(self, ms: int) -> int:
        """Return the time of this clock some time (ms) ago, without later steps.

        So rows that were stored while the clock was far behind have their full retention.
        """
        at = self() - ms
        for before, after in reversed(self._steps):
            if at >= after:
                break
            at -= after - before
        return at

    def _follow(self, now: int, read_at: float) -> int:
        # After a step back, the clock no longer includes the steps beyond its time.
        steps = [each for each in self._steps if each[1] <= now + _MAX_SLEW_MS]
        if self._step is not None or len(steps) < len(self._steps):
            self._steps = deque(steps, _MAX_STEPS)
            self._store(steps)
        self._followed, self._step = (now, read_at), None
        return now

    def _stored_steps(self) -> list[tuple[int, int]]:
        """Return the steps that were stored before the start, and that the clock still includes."""
        if self._file is None or not self._file.exists():
            return []
        try:
            steps = read_json_file(self._file, _STEPS, "file of the clock's steps", "")
        except InvalidRequestError as error:
            log.warning("clock_steps_unreadable", error=error.message)
            return []
        return [each for each in steps if each[1] <= self._followed[0] + _MAX_SLEW_MS]

    def _store(self, steps: Iterable[tuple[int, int]]) -> None:
        if self._file is None:
            return
        try:
            write_json_file(self._file, list(steps))
        except OSError as error:
            log.warning("clock_steps_write_failed", error=str(error))


def frontier_warnings(frontier: int, now: int) -> list[str]:
    """Return the problem of a frontier ahead of the clock, with the remedy; empty: no problem.

    Both times are in ms.
    """
    if frontier <= now + MAX_AHEAD_MS:
        return []
    until = datetime.fromtimestamp(frontier / 1000, UTC).isoformat(" ", "seconds")
    return [
        f"the clock was set back, and the frontier of raw is {(frontier - now) // 1000} s ahead of "
        f"it, so points before {until} are late, and insights over them are corrections; all "
        "points are stored and can be read: check that the time server (NTP) is right"
    ]
