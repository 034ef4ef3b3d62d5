"""Ending in order when a signal asks for it."""

import signal
import threading
from types import FrameType

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def stop_on_signals() -> threading.Event:
    """Return an event that the first signal sets; the second one ends this process.

    Then it is the watchdog that ends the others.
    """
    stopping = threading.Event()

    def stop(_: int, __: FrameType | None) -> None:
        for each in _SIGNALS:
            signal.signal(each, signal.SIG_DFL)
        stopping.set()

    for each in _SIGNALS:
        signal.signal(each, stop)
    return stopping
