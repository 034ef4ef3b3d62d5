"""Installed packages: their folders and their entry points."""

import os
import sys
from functools import lru_cache
from importlib.metadata import EntryPoint, entry_points


def packages() -> tuple[tuple[str, int], ...]:
    """Return (folder, modification time in ns) for each folder from which modules are imported.

    The result changes when a package is installed, replaced or removed.
    """
    return tuple((path, _changed_at(path)) for path in sys.path)


def declared_in(group: str) -> tuple[EntryPoint, ...]:
    """Return the entry points of a group.

    The entry points of packages that were installed after this process started are included.
    """
    return _declared_in(group, packages())


@lru_cache(maxsize=8)
def _declared_in(group: str, stamps: tuple[tuple[str, int], ...]) -> tuple[EntryPoint, ...]:
    # Reading all packages takes 10 ms, and a text may name a scheduler a thousand times.
    del stamps  # the key of the cache
    return tuple(entry_points(group=group))


def _changed_at(path: str) -> int:
    try:
        return os.stat(path).st_mtime_ns
    except OSError:
        return 0
