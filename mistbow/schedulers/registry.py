"""Schedulers by name: the entry points of the group ``mistbow.schedulers``."""

import os
import sys
from functools import lru_cache
from importlib.metadata import EntryPoint, entry_points

from mistbow.errors import InvalidRequestError
from mistbow.schedulers.interface import Scheduler

GROUP = "mistbow.schedulers"


def packages() -> tuple[tuple[str, int], ...]:
    """Return what changes when a package is installed, replaced or removed: folders and times."""
    return tuple((path, _changed_at(path)) for path in sys.path)


def names() -> list[str]:
    """Return the name of every scheduler that is installed."""
    return sorted({entry.name for entry in _installed(packages())})


def places_of(name: str) -> list[str]:
    """Return where the schedulers of this name are, as ``module:Class``."""
    return [entry.value for entry in _installed(packages()) if entry.name == name]


def load(name: str) -> Scheduler:
    """Return a new scheduler; raises ``InvalidRequestError`` if not exactly one has this name."""
    found = {entry.value: entry for entry in _installed(packages()) if entry.name == name}
    if not found:
        raise InvalidRequestError(f"no scheduler {name!r}; there are: {', '.join(names())}")
    if len(found) > 1:
        raise InvalidRequestError(f"scheduler {name!r} is several: {', '.join(sorted(found))}")
    (entry,) = found.values()
    scheduler: Scheduler = entry.load()()
    return scheduler


@lru_cache(maxsize=1)
def _installed(stamps: tuple[tuple[str, int], ...]) -> tuple[EntryPoint, ...]:
    # To read all packages takes 10 ms, and a text may name a scheduler a thousand times.
    del stamps  # a package that is installed, replaced or removed changes them
    return tuple(entry_points(group=GROUP))


def _changed_at(path: str) -> int:
    try:
        return os.stat(path).st_mtime_ns
    except OSError:
        return 0
