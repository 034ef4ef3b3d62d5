"""The orderly stop of this process by a signal."""

import signal
import threading
from types import FrameType

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def stop_on_signals() -> threading.Event:
    """Return an event that is set by the first SIGINT, SIGTERM or SIGHUP.

    A second signal ends this process at once; the watchdog then kills the other processes of the
    run.
    """
    stopping = threading.Event()

    def stop(_: int, __: FrameType | None) -> None:
        for each in _SIGNALS:
            signal.signal(each, signal.SIG_DFL)
        stopping.set()

    for each in _SIGNALS:
        signal.signal(each, stop)
    return stopping
