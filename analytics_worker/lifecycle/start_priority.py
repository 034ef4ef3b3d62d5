"""The CPU priority of a worker that starts, against the other services of its machine.

A worker that is restarted needs 20 s of CPU time, while the other workers start its fragments.
Linux divides CPU time among sessions (``man 7 sched``: autogroups), and the nice value of a process
counts within its session only. So the nice value of the session is set. It has no effect on
sessions in control groups for CPU time, such as containers.
"""

import os
import threading
from contextlib import suppress
from pathlib import Path

import stamina

_AUTOGROUP = Path("/proc/self/autogroup")
_LOW_NICE = 19
"""The nice value with which a session gets little more than the CPU time that others leave."""

_MAX_LOW_S = 15.0
"""The maximum time (s) of a low priority, because the started worker is needed too."""


class StartPriority:
    """The low CPU priority of the process's session, from ``lower`` to ``restore``.

    Without effect if the session has other programs, its nice value was set before, or the system
    has no autogroups. ``max_s``: the maximum time (s) of the low priority.
    """

    def __init__(self, max_s: float = _MAX_LOW_S) -> None:
        self._max_s = max_s
        self._limit: threading.Timer | None = None

    def lower(self) -> None:
        """Lower the priority, unless it was lowered before."""
        if self._limit is None and _has_normal_priority():
            _set_nice(_LOW_NICE)
            self._limit = threading.Timer(self._max_s, _set_nice, [0])
            self._limit.daemon = True
            self._limit.start()

    def restore(self) -> None:
        """Restore the normal priority, if it was lowered."""
        if self._limit is not None:
            self._limit.cancel()
            _set_nice(0)


START_PRIORITY = StartPriority()
"""The low priority of this process, whose imports take seconds of CPU time already."""


def _has_normal_priority() -> bool:
    with suppress(OSError):
        return os.getsid(0) == os.getpid() and _AUTOGROUP.read_text().endswith(" nice 0\n")
    return False


def _set_nice(value: int) -> None:
    # Linux accepts ten such changes per second, of all processes.
    with suppress(OSError):
        for attempt in stamina.retry_context(on=BlockingIOError, attempts=None, timeout=_MAX_LOW_S):
            with attempt:
                _AUTOGROUP.write_text(str(value))
