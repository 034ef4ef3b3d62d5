"""Calling operators of other packages safely: one that raises, hangs or dies stops nothing else."""

import os
import select
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import msgspec
import numpy as np

from mistbow.operators import process
from mistbow.operators.installed import installed
from mistbow.operators.interface import Installed
from mistbow.operators.points import Floats
from mistbow.operators.process import LENGTH, Answer, Call
from mistbow.packages import environment, packages

LIMIT_S = 2.0
"""How long all windows of a tick may take, beside ``WINDOW_S`` for each.

Little, for all of a tick wait; not less, for a node may be busy.
"""

WINDOW_S = 0.001
"""What each window adds, for there may be thousands of keys: twice what a small one needs."""

LOADING_S = 10.0
"""How long an operator may take to be loaded, before its first call in a process."""

_ENDING_S = 1.0
"""How long a process that says no more may take to end by itself, and so tell why."""

REST_S = 30.0
"""An operator that hangs or dies is called again after so long: each try takes its time."""

_decoder = msgspec.msgpack.Decoder(Answer)


class NoAnswerError(Exception):
    """An operator gave no answer, for it hangs or its process died."""


@dataclass(slots=True)
class _Limit:
    """How long answers are waited for, and how much of that is left (s)."""

    seconds: float
    left: float


def _limits(ticks: Sequence[int], limit_s: float) -> dict[int, _Limit]:
    seconds = {tick: limit_s + WINDOW_S * count for tick, count in Counter(ticks).items()}
    return {tick: _Limit(each, each) for tick, each in seconds.items()}


def call(
    name: str,
    version: str,
    parameters: Sequence[float],
    windows: Sequence[Sequence[Floats]],
    limit_s: float = LIMIT_S,
    ticks: Sequence[int] | None = None,
) -> list[Answer]:
    """Return what an operator says of each window, which has an array for each metric.

    Where it cannot be asked, the answers tell why. Those of a tick come within ``limit_s`` and
    ``WINDOW_S`` for each window: those of the windows before an operator hangs are its own.
    ``ticks`` is the tick of each window; without it, all are of one.
    """
    known = installed().version(name, version)
    if known is None:
        return [Answer(problem="it is not installed here")] * len(windows)
    given = dict(zip(known.parameters, parameters, strict=False))
    of_ticks = [0] * len(windows) if ticks is None else ticks
    return _caller().answers(known, given, windows, of_ticks, limit_s)


@cache
def _caller() -> "_Caller":
    return _Caller()


class _Caller:
    """A process that calls operators: a thread that hangs could not be ended, a process can."""

    def __init__(self) -> None:
        self._child: subprocess.Popen[bytes] | None = None
        self._loaded: set[Installed] = set()
        self._resting: dict[Installed, tuple[float, str]] = {}
        self._packages = packages()

    def answers(
        self,
        operator: Installed,
        parameters: dict[str, float],
        windows: Sequence[Sequence[Floats]],
        ticks: Sequence[int],
        limit_s: float,
    ) -> list[Answer]:
        """Return the answer for each window."""
        if self._packages != packages():
            # What it has loaded may be another by now.
            self._packages = packages()
            self._resting.clear()
            if self._child is not None:
                self._end(self._child)
        answers: list[Answer] = []
        until, reason = self._resting.get(operator, (0.0, ""))
        if time.monotonic() >= until:
            try:
                self._load(operator)
                limits = _limits(ticks, limit_s)
                for tick, values in zip(ticks, windows, strict=True):
                    arrays = tuple(np.asarray(each, np.float64).tobytes() for each in values)
                    answers.append(self._ask(operator, arrays, parameters, limits[tick]))
            except NoAnswerError as error:
                reason = f"{error}; it is tried again after {REST_S:g} s"
                self._resting[operator] = time.monotonic() + REST_S, reason
        return answers + [Answer(problem=reason)] * (len(windows) - len(answers))

    def _load(self, operator: Installed) -> None:
        if operator not in self._loaded:
            self._ask(operator, (), {}, _Limit(LOADING_S, LOADING_S))
            self._loaded.add(operator)

    def _ask(
        self,
        operator: Installed,
        values: tuple[bytes, ...],
        parameters: dict[str, float],
        limit: _Limit,
    ) -> Answer:
        began = time.monotonic()
        child = self._running()
        asked = Call(operator.place, parameters, values, int(limit.seconds) + 1)
        try:
            answer = _exchange(child, msgspec.msgpack.encode(asked), began + limit.left)
        except TimeoutError:
            self._end(child)
            raise NoAnswerError(f"it gave no answer within {limit.seconds:.3g} s") from None
        except (OSError, EOFError):
            _let_end(child)
            self._end(child)
            raise NoAnswerError(f"its process ended with {child.returncode}") from None
        limit.left -= time.monotonic() - began
        return answer

    def _running(self) -> subprocess.Popen[bytes]:
        if self._child is None:
            self._child = subprocess.Popen(
                [sys.executable, "-P", "-m", process.__name__, "call"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env=environment(),
                start_new_session=True,
            )
        return self._child

    def _end(self, child: subprocess.Popen[bytes]) -> None:
        # With all that it may have started itself.
        os.killpg(child.pid, signal.SIGKILL)
        child.communicate()
        self._child = None
        self._loaded.clear()


def _let_end(child: subprocess.Popen[bytes]) -> None:
    """Wait for a process to end, without taking its exit code: its number stays its own so."""
    ended = os.pidfd_open(child.pid)
    try:
        select.select([ended], [], [], _ENDING_S)
    finally:
        os.close(ended)


def _exchange(child: subprocess.Popen[bytes], question: bytes, deadline: float) -> Answer:
    """Send a call and return its answer; raises ``TimeoutError``, ``OSError``, ``EOFError``."""
    assert child.stdin is not None and child.stdout is not None  # noqa: S101,PT018 - both are pipes
    # It reads a call before it runs anything, so the pipe cannot be full for long.
    child.stdin.write(len(question).to_bytes(LENGTH, "little") + question)
    child.stdin.flush()
    length = int.from_bytes(_read(child.stdout.fileno(), LENGTH, deadline), "little")
    return _decoder.decode(_read(child.stdout.fileno(), length, deadline))


def _read(pipe: int, count: int, deadline: float) -> bytes:
    read = b""
    while len(read) < count:
        ready, _, _ = select.select([pipe], [], [], max(0.0, deadline - time.monotonic()))
        if not ready:
            raise TimeoutError
        part = os.read(pipe, count - len(read))
        if not part:
            raise EOFError
        read += part
    return read
