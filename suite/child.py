"""Supervision of one child process: restarts with growing pauses, and an orderly end."""

import math
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field

from mistbow.runtime.environment import inherited_environment
from mistbow.runtime.periodic import PeriodicThread, Schedule
from suite.child_logs import ChildLogs
from suite.expected_traces import TraceFilter
from suite.watchdog import VARIABLE, sweep

RESTART = "; it starts again in"
"""The text that the report of each restart of a child contains."""

_FIRST_PAUSE_S = 0.2
_MAX_PAUSE_S = 5.0
_HEALTHY_S = 30.0


@dataclass(frozen=True, slots=True)
class Child:
    """The declaration of a child process.

    ``ready``: returns whether the process is ready to serve requests. ``inherits``: the names of
    the environment variables that the child inherits; None: all variables. ``env``: variables that
    are added to the environment. ``after``: the names of the children that must be ready first.
    ``uses``: the names of further children that run until this one has ended. ``patience_s``: the
    time (s) between SIGTERM and SIGKILL.
    """

    name: str
    argv: tuple[str, ...]
    ready: Callable[[], bool]
    env: Mapping[str, str] = field(default_factory=dict)
    after: tuple[str, ...] = ()
    uses: tuple[str, ...] = ()
    patience_s: float = 8.0
    inherits: Collection[str] | None = None


class Backoff:
    """The pause before the next start of a child.

    The pause doubles at each end of the child, and is short again after a run of at least 30 s.
    """

    def __init__(self) -> None:
        self._pause = _FIRST_PAUSE_S

    def after(self, lived_s: float) -> float:
        """Return the pause (s) before the next start of a child that ran for ``lived_s``."""
        if lived_s >= _HEALTHY_S:
            self._pause = _FIRST_PAUSE_S
        pause, self._pause = self._pause, min(2 * self._pause, _MAX_PAUSE_S)
        return pause


class ManagedChild:
    """A child that is restarted whenever it ends, and is stopped with all its descendants."""

    def __init__(self, child: Child, run: str, output: ChildLogs) -> None:
        self.child = child
        self._tag = f"{run}/{child.name}"
        self._output = output
        self._backoff = Backoff()
        self._stopping = False
        self._starting = threading.Lock()
        self._process: subprocess.Popen[str] | None = None
        self._last_line = ""
        # Each run returns its pause.
        schedule = Schedule("supervision", _FIRST_PAUSE_S, fields={"child": child.name})
        self._thread = PeriodicThread(self._run_and_report, schedule)
        output.open(child.name)

    @property
    def pid(self) -> int | None:
        """The process id of the child; None before its first start."""
        return self._process.pid if self._process else None

    def start(self) -> None:
        """Start the child and its supervision."""
        self._thread.start()

    def stop(self) -> None:
        """Stop the child: send SIGTERM, wait for up to ``patience_s``, and kill what remains.

        The child and all its descendants are killed if they still run.
        """
        with self._starting:
            self._stopping = True
            process = self._process
        if process is not None:
            process.terminate()
            try:
                process.wait(self.child.patience_s)
            except subprocess.TimeoutExpired:
                self._output.report(f"{self.child.name} does not stop in time and is killed")
        try:
            sweep(self._tag)
        except Exception as error:  # the other children must be stopped all the same
            self._output.report(f"{self.child.name} cannot be stopped: {error}")
        else:
            self._thread.stop()

    def _run_and_report(self) -> float:
        """Run the child once, report its end, and return the pause (s) before the next run."""
        began = time.monotonic()
        try:
            code = self._run_once()
        except Exception as error:  # such as a lack of memory, which may pass
            end = f"cannot be started: {error}"
        else:
            end = "" if code is None else f"{_describe_end(code)}, last output: {self._last_line!r}"
        if self._stopping:
            return math.inf
        pause = self._backoff.after(time.monotonic() - began)
        self._output.report(f"{self.child.name} {end}{RESTART} {pause:.1f} s")
        return pause

    def _run_once(self) -> int | None:
        """Run the child until it ends, and return the exit code.

        Return None without a run if the child is being stopped.
        """
        process = self._start()
        if process is None:
            return None
        try:
            pump = threading.Thread(target=self._log_output, args=(process,), daemon=True)
            pump.start()
            code = process.wait()
            # Its descendants may still write to its output, or use its ports.
            sweep(self._tag)
        finally:
            # Without effect on a process that has ended.
            process.kill()
            process.wait()
        pump.join()
        return code

    def _start(self) -> subprocess.Popen[str] | None:
        with self._starting:
            if self._stopping:
                return None
            # A session of its own, so that Ctrl-C reaches the supervisor only.
            self._process = subprocess.Popen(
                self.child.argv,
                env={**_inherited(self.child), **self.child.env, VARIABLE: self._tag},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                start_new_session=True,
            )
            return self._process

    def _log_output(self, process: subprocess.Popen[str]) -> None:
        traces = TraceFilter(self.child.name)
        with process.stdout or nullcontext(()) as lines:
            for line in lines:
                self._log(traces.feed(line.rstrip()))
        self._log(traces.close())

    def _log(self, lines: Iterable[str]) -> None:
        for line in lines:
            self._last_line = line.strip() or self._last_line
            self._output.line(self.child.name, line, ending=self._stopping)


def _inherited(child: Child) -> Mapping[str, str]:
    return os.environ if child.inherits is None else inherited_environment(child.inherits)


def _describe_end(code: int) -> str:
    return f"was stopped by {signal.Signals(-code).name}" if code < 0 else f"ended with code {code}"
