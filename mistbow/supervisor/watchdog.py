"""No process of a run outlives it, however the supervisor ends.

All processes of a run carry its tag in their environment, which the processes that they start
inherit, whatever session or group those move to. A small process of its own, the watchdog, waits
for the supervisor's end of a pipe to close, as it also does on ``kill -9``, and kills what carries
the tag. A child that was just being forked holds that pipe open until it has its own environment,
so none is missed.
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
    """Return the living processes of ``tag`` and of the tags below it (``tag/…``)."""
    return [process for process in psutil.process_iter() if _carries(process, tag)]


def sweep(tag: str) -> None:
    """Kill all processes of ``tag``, and those that they start meanwhile; wait until none is left.

    Raises ``MistbowError`` naming those that the system will not let go.
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
    raise MistbowError(f"these processes cannot be ended: {[p.pid for p in tagged(tag)]}")


def start_watchdog(tag: str, keep_open: Sequence[int] = ()) -> subprocess.Popen[bytes]:
    """Start the watchdog of a run; it lives until the standard input that we hold closes.

    ``keep_open``: file descriptors that it inherits, such as a lock that is to be held until all
    is swept.
    """
    return subprocess.Popen(
        [sys.executable, "-m", "mistbow.supervisor.watchdog", tag],
        stdin=subprocess.PIPE,
        pass_fds=keep_open,
        start_new_session=True,
    )


def _carries(process: psutil.Process, tag: str) -> bool:
    try:
        found = process.environ().get(VARIABLE, "")
        return f"{found}/".startswith(f"{tag}/") and process.status() != psutil.STATUS_ZOMBIE
    except (psutil.Error, OSError):  # not ours, or gone meanwhile
        return False


def _watch(tag: str) -> None:
    for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(each, signal.SIG_IGN)
    while os.read(0, 1):
        pass
    sweep(tag)


if __name__ == "__main__":
    _watch(sys.argv[1])
