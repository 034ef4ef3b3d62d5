"""Pauses Python's cyclic garbage collector, which would stop a service during work on much data."""

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_RELEASED_ITEMS = 2000

_lock = threading.Lock()
_pauses = 0


@contextmanager
def collection_paused() -> Iterator[None]:
    """Pause the collector inside the ``with`` block, in all threads.

    A collection stops all threads while it visits every object. Work that builds millions of
    objects without cycles would cause many collections that find no garbage.
    """
    global _pauses
    with _lock:
        _pauses += 1
        gc.disable()
    try:
        yield
    finally:
        with _lock:
            _pauses -= 1
            if not _pauses:
                gc.enable()


def exclude_from_collection() -> None:
    """Exclude all present objects from later garbage collections.

    An agent calls this function after its recovery: it needs the recovered data until it ends.
    """
    gc.collect()
    gc.freeze()


def release(items: list[Any]) -> None:
    """Empty a list, a few items at a time, so that other threads can run in between.

    Python frees items that are removed together without letting other threads run.
    """
    while items:
        del items[-_RELEASED_ITEMS:]
