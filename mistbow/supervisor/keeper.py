"""Keeping one child process alive."""

import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field

from mistbow.supervisor.output import Output
from mistbow.supervisor.watchdog import VARIABLE, sweep

_FIRST_PAUSE_S = 0.2
_LONGEST_PAUSE_S = 5.0
_HEALTHY_S = 30.0


@dataclass(frozen=True, slots=True)
class Child:
    """A process to keep; ``after`` names those that must be ready before it is started.

    ``ready`` tells whether it serves; ``patience_s`` is how long it may take to end by itself.
    """

    name: str
    argv: tuple[str, ...]
    ready: Callable[[], bool]
    env: Mapping[str, str] = field(default_factory=dict)
    after: tuple[str, ...] = ()
    patience_s: float = 8.0


class Backoff:
    """How long to wait before the next start: longer each time, until a child has lived well."""

    def __init__(self) -> None:
        self._pause = _FIRST_PAUSE_S

    def after(self, lived_s: float) -> float:
        """Return the pause, seconds, now that a child has ended."""
        if lived_s >= _HEALTHY_S:
            self._pause = _FIRST_PAUSE_S
        pause, self._pause = self._pause, min(2 * self._pause, _LONGEST_PAUSE_S)
        return pause


class Keeper:
    """Starts a child, starts it again whenever it ends, and ends it with all that it started."""

    def __init__(self, child: Child, run: str, output: Output) -> None:
        self.child = child
        self._tag = f"{run}/{child.name}"
        self._output = output
        self._backoff = Backoff()
        self._stopping = threading.Event()
        self._starting = threading.Lock()
        self._process: subprocess.Popen[str] | None = None
        self._last_words = ""
        self._thread = threading.Thread(target=self._keep, name=f"keep-{child.name}", daemon=True)
        output.open(child.name)

    @property
    def pid(self) -> int | None:
        """The process id of the child, once it was started."""
        return self._process.pid if self._process else None

    def start(self) -> None:
        """Start the child, and keep it from now on."""
        self._thread.start()

    def stop(self) -> None:
        """End the child by SIGTERM, by SIGKILL what is left of it when its patience is over."""
        with self._starting:
            self._stopping.set()
            process = self._process
        if process is not None:
            process.terminate()
            try:
                process.wait(self.child.patience_s)
            except subprocess.TimeoutExpired:
                self._output.say(f"{self.child.name} takes too long to end; it is killed")
        try:
            sweep(self._tag)
        except Exception as error:  # the others have to be ended all the same
            self._output.say(f"{self.child.name} cannot be ended: {error}")
        else:
            self._thread.join()

    def _keep(self) -> None:
        while True:
            began = time.monotonic()
            try:
                code = self._run_once()
            except Exception as error:  # no memory, no file descriptors: it may pass
                end = f"cannot be kept: {error}"
            else:
                if code is None:
                    return
                end = f"{_ending(code)}, its last words: {self._last_words!r}"
            if self._stopping.is_set():
                return
            pause = self._backoff.after(time.monotonic() - began)
            self._output.say(f"{self.child.name} {end}; it starts again in {pause:.1f} s")
            self._stopping.wait(pause)

    def _run_once(self) -> int | None:
        process = self._start()
        if process is None:
            return None
        try:
            pump = threading.Thread(target=self._pump, args=(process,), daemon=True)
            pump.start()
            code = process.wait()
            # What it started may still write to its output, hold its ports, or do its work.
            sweep(self._tag)
        finally:
            # Nothing when it has ended; else nobody would look after it.
            process.kill()
            process.wait()
        pump.join()
        return code

    def _start(self) -> subprocess.Popen[str] | None:
        with self._starting:
            if self._stopping.is_set():
                return None
            # In a session of its own, so that Ctrl-C reaches the supervisor only.
            self._process = subprocess.Popen(
                self.child.argv,
                env={**os.environ, **self.child.env, VARIABLE: self._tag},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                start_new_session=True,
            )
            return self._process

    def _pump(self, process: subprocess.Popen[str]) -> None:
        with process.stdout or nullcontext(()) as lines:
            for line in lines:
                self._last_words = line.strip() or self._last_words
                ending = self._stopping.is_set()
                self._output.line(self.child.name, line.rstrip(), ending=ending)


def _ending(code: int) -> str:
    return f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with code {code}"
