"""All children together: started by what they need, stopped the other way round."""

import threading
import time
from collections.abc import Sequence
from uuid import uuid4

from mistbow.supervisor.keeper import Child, Keeper
from mistbow.supervisor.output import Output
from mistbow.supervisor.watchdog import start_watchdog

_PAUSE_S = 0.1


class Supervisor:
    """Keeps ``children`` from ``start`` to ``stop``; nothing of them outlives this process.

    ``keep_open``: file descriptors that stay open until all of them have ended, in any case.
    """

    def __init__(
        self, children: Sequence[Child], output: Output, keep_open: Sequence[int] = ()
    ) -> None:
        self._run = uuid4().hex
        self._output = output
        self._waiting = [Keeper(child, self._run, output) for child in children]
        self._started: list[Keeper] = []
        self._told: set[str] = set()
        self._watchdog = start_watchdog(self._run, keep_open)

    @property
    def pids(self) -> dict[str, int | None]:
        """The process id of each child that was started."""
        return {keeper.child.name: keeper.pid for keeper in self._started}

    def start(self, stopping: threading.Event) -> bool:
        """Start each child when those it comes after are ready; return whether all are.

        Returns False as soon as ``stopping`` is set.
        """
        began = time.monotonic()
        ready: set[str] = set()
        while not stopping.is_set():
            for keeper in [k for k in self._waiting if ready.issuperset(k.child.after)]:
                self._waiting.remove(keeper)
                self._started.append(keeper)
                keeper.start()
            for child in (k.child for k in self._started if k.child.name not in ready):
                if self._is_ready(child):
                    ready.add(child.name)
                    self._output.say(f"{child.name} is ready, {time.monotonic() - began:.1f} s")
            if not self._waiting and len(ready) == len(self._started):
                return True
            stopping.wait(_PAUSE_S)
        return False

    def _is_ready(self, child: Child) -> bool:
        try:
            return child.ready()
        except Exception as error:  # a probe that fails is no reason to stop all the others
            problem = f"{child.name} cannot be probed: {error}"
            if problem not in self._told:
                self._told.add(problem)
                self._output.say(problem)
            return False

    def stop(self) -> None:
        """End all children, the last started first."""
        for keeper in reversed(self._started):
            keeper.stop()
        if self._watchdog.stdin is not None:
            self._watchdog.stdin.close()
        self._watchdog.wait()
