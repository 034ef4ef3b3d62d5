"""Limits Python's cyclic garbage collector, which would stop a service during work on much data."""

import gc
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_RELEASED_ITEMS = 2000
_FULL = 2
"""The generation of a full collection."""

_SLOW_S = 0.05

_PAUSED = (10_000, 1, 1_000_000)
"""The thresholds of the collector in a pause: no full collections.

The others visit at most a few ten thousand objects, which takes some milliseconds.
"""

_lock = threading.Lock()
_pauses = 0
_thresholds = gc.get_threshold()


@contextmanager
def full_collections_paused() -> Iterator[None]:
    """Pause full collections inside the ``with`` block, in all threads.

    A full collection stops all threads while it visits every object. Work that builds millions of
    objects without cycles would cause many that find no garbage. New objects are visited also in
    the pause, a few at a time. Otherwise the first collection after the pause would visit all that
    are still in use, for example by a thread whose request was cancelled.
    """
    global _pauses
    with _lock:
        _pauses += 1
        gc.set_threshold(*_PAUSED)
    try:
        yield
    finally:
        with _lock:
            _pauses -= 1
            if not _pauses:
                gc.set_threshold(*_thresholds)


def exclude_from_collection() -> None:
    """Exclude all present objects from later garbage collections.

    An agent calls this function after its recovery: it needs the recovered data until it ends.
    """
    gc.collect()
    gc.freeze()


@contextmanager
def slow_collections_excluded(slow_s: float = _SLOW_S) -> Iterator[None]:
    """Exclude the survivors of each full collection that takes longer than ``slow_s``.

    A full collection visits all objects that were not excluded, and stops the service meanwhile:
    about 0.5 s for 100,000 series that arrived after the recovery. Excluded objects are still freed
    when nothing refers to them; only cycles of them remain.
    """
    begun = 0.0

    def observe(phase: str, info: dict[str, int]) -> None:
        nonlocal begun
        if info["generation"] < _FULL:
            return
        if phase == "start":
            begun = time.thread_time()
        elif time.thread_time() - begun > slow_s:
            gc.freeze()

    gc.callbacks.append(observe)
    try:
        yield
    finally:
        gc.callbacks.remove(observe)


def release(items: list[Any]) -> None:
    """Empty a list, a few items at a time, so that other threads can run in between.

    Python frees items that are removed together without letting other threads run.
    """
    while items:
        del items[-_RELEASED_ITEMS:]
