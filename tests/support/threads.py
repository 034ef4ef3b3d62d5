"""Threads that work in the background of a ``with`` block."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def in_threads(*work: Callable[[threading.Event], None]) -> Iterator[None]:
    """Call each function in a thread of its own, within the ``with``.

    A function must return soon after its event is set, which is at the end of the ``with``.
    """
    stopped = threading.Event()
    threads = [threading.Thread(target=each, args=(stopped,), daemon=True) for each in work]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stopped.set()
        for thread in threads:
            thread.join()
