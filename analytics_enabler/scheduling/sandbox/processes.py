"""The processes that run schedulers; each process stays for later calls of its scheduler.

The start of a process takes seconds on a busy machine, so it does not count as time of a call.
"""

import atexit
import math
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import IO

from analytics.packages import packages
from analytics.sandbox import SandboxError, failure, kill, start
from analytics_enabler.scheduling.sandbox import child
from analytics_enabler.scheduling.sandbox.child import (
    ANSWER_HEADER,
    READY,
    REQUEST_HEADER,
    START_S,
)

IDLE_S = 600.0
"""The time (s) without calls after which a process is ended."""

_EXIT_S = 5.0
"""The time (s) that a process has to end by itself."""


@dataclass(frozen=True)
class _Running:
    """A running process; ``errors``: the file of its errors."""

    process: subprocess.Popen[bytes]
    requests: IO[bytes]
    answers: IO[bytes]
    errors: IO[bytes]
    installed: tuple[tuple[str, int], ...]


class SchedulerProcess:
    """The process of one scheduler, which is started at a call if it does not run.

    A process ends if a call fails, or after other packages have been installed.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._running: _Running | None = None
        self._lock = threading.Lock()
        self._used_at = time.monotonic()

    @property
    def pid(self) -> int | None:
        """The id of the running process; None: no process runs."""
        return None if self._running is None else self._running.process.pid

    def call(self, request: bytes, limit_s: float) -> bytes:
        """Return the answer of the scheduler to a request in JSON.

        Raises ``SandboxError`` if the process fails, or if the answer takes longer than
        ``limit_s``. The start of the process is not included.
        """
        with self._lock:
            self._used_at = time.monotonic()
            running = self._running
            if running is None or not _is_usable(running):
                self._end()
                running = self._running = _start(self._name)
                self._exchange(running, b"", _read_ready, START_S)
            running.errors.truncate(0)
            header = REQUEST_HEADER.pack(len(request), math.ceil(limit_s) + 1)
            return self._exchange(running, header + request, _read_answer, limit_s)

    def end_if_idle(self) -> None:
        """End the process if it has not been called for ``IDLE_S``."""
        if self._lock.acquire(blocking=False):
            try:
                if time.monotonic() - self._used_at > IDLE_S:
                    self._end()
            finally:
                self._lock.release()

    def end(self) -> None:
        """End the process after its present call."""
        with self._lock:
            self._end()

    def _exchange(
        self,
        running: _Running,
        message: bytes,
        read: Callable[[IO[bytes]], bytes | None],
        limit_s: float,
    ) -> bytes:
        """Send a message, and return what ``read`` returns from the output of the process.

        Raises ``SandboxError`` if that is None, or if it takes longer than ``limit_s``.
        """
        is_late = threading.Event()

        def end_late() -> None:
            is_late.set()
            kill(running.process)

        timer = threading.Timer(limit_s, end_late)
        timer.start()
        try:
            running.requests.write(message)
            running.requests.flush()
            answer = read(running.answers)
        except OSError:
            answer = None
        finally:
            timer.cancel()
            timer.join()
        if answer is not None and not is_late.is_set():
            return answer
        problem = self._end()
        raise SandboxError(f"no answer within {limit_s:g} s" if is_late.is_set() else problem)

    def _end(self) -> str:
        """End the process; return the reason if it has failed."""
        running, self._running = self._running, None
        if running is None:
            return ""
        with running.process as process, running.errors as errors:
            try:
                # At the end of its input, an idle process ends by itself.
                process.communicate(timeout=_EXIT_S)
            except subprocess.TimeoutExpired:
                kill(process)
                process.communicate()
            errors.seek(0)
            return failure(process.returncode, errors.read())


def _start(name: str) -> _Running:
    installed = packages()
    with ExitStack() as opened:
        # Appending, so that the file can be emptied while the process writes.
        errors = opened.enter_context(tempfile.TemporaryFile("a+b"))
        process = start(child.__name__, [name], stderr=errors.fileno())
        opened.pop_all()
    if process.stdin is None or process.stdout is None:
        raise SandboxError("the process has no pipes")
    return _Running(process, process.stdin, process.stdout, errors, installed)


def _is_usable(running: _Running) -> bool:
    return running.process.poll() is None and running.installed == packages()


def _read_ready(answers: IO[bytes]) -> bytes | None:
    return answers.read(len(READY)) or None


def _read_answer(answers: IO[bytes]) -> bytes | None:
    """Return the next answer of a process; None: the process has ended."""
    header = answers.read(ANSWER_HEADER.size)
    if len(header) < ANSWER_HEADER.size:
        return None
    (length,) = ANSWER_HEADER.unpack(header)
    answer = answers.read(length)
    return answer if len(answer) == length else None


class SchedulerProcesses:
    """The processes of all schedulers, by name."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._processes: dict[str, SchedulerProcess] = {}

    def call(self, name: str, request: bytes, limit_s: float) -> bytes:
        """Return the answer of the scheduler ``name``, as ``SchedulerProcess.call`` does."""
        with self._lock:
            process = self._processes.setdefault(name, SchedulerProcess(name))
            others = [other for other in self._processes.values() if other is not process]
        for other in others:
            other.end_if_idle()
        return process.call(request, limit_s)

    def pid(self, name: str) -> int | None:
        """Return the id of the process of a scheduler; None: no process runs."""
        process = self._processes.get(name)
        return None if process is None else process.pid

    def end(self) -> None:
        """End all processes."""
        with self._lock:
            for process in self._processes.values():
                process.end()


PROCESSES = SchedulerProcesses()
"""The processes of this service, which end with it."""

atexit.register(PROCESSES.end)
