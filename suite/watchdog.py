"""The watchdog: kills all processes of a run when the supervisor ends, even by ``kill -9``.

All processes of a run have the tag of the run in their environment, and all descendants inherit the
tag, whatever session or group they join. The watchdog is a small process that waits until all
copies of the supervisor's end of a pipe are closed, and then kills all processes with the tag. A
child that is being forked has a copy of this end open until the environment with the tag is set, so
no child is missed.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence

import psutil

from mistbow.errors import MistbowError

VARIABLE = "MISTBOW_RUN"
_PAUSE_S = 0.05
_ROUNDS = 400


def tagged(tag: str) -> list[psutil.Process]:
    """Return the living processes with the tag ``tag`` or a tag that begins with ``tag/``."""
    return [process for process in psutil.process_iter() if _carries(process, tag)]


def sweep(tag: str) -> None:
    """Kill all processes with the tag, including new ones, and wait until they have ended.

    Raises ``MistbowError`` with the ids of processes that cannot be killed.
    """
    for _ in range(_ROUNDS):
        found = tagged(tag)
        if not found:
            return
        for process in found:
            try:
                process.kill()
            except psutil.NoSuchProcess:
                continue
        time.sleep(_PAUSE_S)
    raise MistbowError(f"these processes still run after SIGKILL: {[p.pid for p in tagged(tag)]}")


def start_watchdog(tag: str, keep_open: Sequence[int] = ()) -> subprocess.Popen[bytes]:
    """Start the watchdog of the run with this tag, and return the process of the watchdog.

    The watchdog acts, and then ends, when this process closes the other end of the watchdog's
    standard input, which is a pipe.

    ``keep_open``: file descriptors that the watchdog inherits, such as a lock that must last until
    the watchdog has killed all processes.
    """
    return subprocess.Popen(
        [sys.executable, "-m", "suite.watchdog", tag],
        stdin=subprocess.PIPE,
        pass_fds=keep_open,
        start_new_session=True,
    )


def _carries(process: psutil.Process, tag: str) -> bool:
    try:
        found = process.environ().get(VARIABLE, "")
        return f"{found}/".startswith(f"{tag}/") and process.status() != psutil.STATUS_ZOMBIE
    except (psutil.Error, OSError):  # a process of another user, or one that has ended
        return False


def _watch(tag: str) -> None:
    for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(each, signal.SIG_IGN)
    while os.read(0, 1):
        pass
    sweep(tag)


if __name__ == "__main__":
    _watch(sys.argv[1])
