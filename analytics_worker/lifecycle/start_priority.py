"""The CPU priority of a worker that starts, against the other services of its machine.

A worker that is restarted needs 20 s of CPU time, while the other workers start its fragments.
Linux divides CPU time among sessions (``man 7 sched``: autogroups), and the nice value of a process
counts within its session only. So the nice value of the session is set. It has no effect on
sessions in control groups for CPU time, such as containers.
"""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import stamina

_AUTOGROUP = Path("/proc/self/autogroup")
_LOW_NICE = 10
"""The nice value that gives a session a tenth of the CPU time of another one."""

_MAX_LOW_S = 10.0
"""The maximum time (s) of a low priority, because the started worker is needed too."""


@contextmanager
def low_start_priority(max_s: float = _MAX_LOW_S) -> Iterator[None]:
    """Lower the priority of the process's session in the ``with``, for at most ``max_s``.

    Without effect if the session has other programs, its nice value was set before, or the system
    has no autogroups.
    """
    if not _has_normal_priority():
        yield
        return
    _set_nice(_LOW_NICE)
    limit = threading.Timer(max_s, _set_nice, [0])
    limit.daemon = True
    limit.start()
    try:
        yield
    finally:
        limit.cancel()
        _set_nice(0)


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
