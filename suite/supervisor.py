"""The supervisor: starts and stops child processes in the order of their dependencies."""

import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from uuid import uuid4

from suite.child import Child, ManagedChild
from suite.child_logs import ChildLogs
from suite.signals import stop_on_signals
from suite.watchdog import start_watchdog

_PAUSE_S = 0.1


class Supervisor:
    """Supervises ``children`` from ``start`` to ``stop``; no child outlives this process.

    ``keep_open``: file descriptors that stay open until all children have ended.
    """

    def __init__(
        self, children: Sequence[Child], output: ChildLogs, keep_open: Sequence[int] = ()
    ) -> None:
        self._run = uuid4().hex
        self._output = output
        self._pending = [ManagedChild(child, self._run, output) for child in children]
        self._started: list[ManagedChild] = []
        self._reported: set[str] = set()
        self._watchdog = start_watchdog(self._run, keep_open)

    @property
    def pids(self) -> dict[str, int | None]:
        """Name -> process id, for each started child; None: the process does not exist yet."""
        return {managed.child.name: managed.pid for managed in self._started}

    def start(self, stopping: threading.Event) -> bool:
        """Start each child when the children in its ``after`` are ready.

        Returns True once all children are ready, and False as soon as ``stopping`` is set.
        """
        began = time.monotonic()
        ready: set[str] = set()
        while not stopping.is_set():
            for managed in [k for k in self._pending if ready.issuperset(k.child.after)]:
                self._pending.remove(managed)
                self._started.append(managed)
                managed.start()
            for child in (k.child for k in self._started if k.child.name not in ready):
                if self._is_ready(child):
                    ready.add(child.name)
                    self._output.report(f"{child.name} is ready, {time.monotonic() - began:.1f} s")
            if not self._pending and len(ready) == len(self._started):
                return True
            stopping.wait(_PAUSE_S)
        return False

    def _is_ready(self, child: Child) -> bool:
        try:
            return child.ready()
        except Exception as error:  # a failing probe must not stop the other children
            problem = f"{child.name} cannot be probed: {error}"
            if problem not in self._reported:
                self._reported.add(problem)
                self._output.report(problem)
            return False

    def stop(self) -> None:
        """Stop all children, in the reverse order of their start.

        A child that another one uses is stopped after that one.
        """
        for managed in self._stop_order():
            managed.stop()
        if self._watchdog.stdin is not None:
            self._watchdog.stdin.close()
        self._watchdog.wait()

    def _stop_order(self) -> Iterator[ManagedChild]:
        running = self._started[::-1]
        while running:
            used = {name for each in running for name in (*each.child.after, *each.child.uses)}
            unused = (each for each in running if each.child.name not in used)
            following = next(unused, running[0])
            running.remove(following)
            yield following


def supervise(
    children: Sequence[Child], output: ChildLogs, problems: Iterable[str], keep_open: Sequence[int]
) -> None:
    """Run children until SIGTERM or Ctrl-C, and report problems first; see ``Supervisor``."""
    stopping = stop_on_signals()
    for problem in problems:
        output.report(problem)
    supervisor = Supervisor(children, output, keep_open)
    try:
        if supervisor.start(stopping):
            stopping.wait()
    finally:
        output.report("stopping")
        supervisor.stop()
        output.report("stopped")
