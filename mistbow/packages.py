"""Packages beside Mistbow: what they declare, and processes that run what is theirs."""

import os
import sys
from functools import lru_cache
from importlib.metadata import EntryPoint, entry_points

_SECRETS = ("MISTBOW_TOKEN", "MISTBOW_TOKEN_FILE")


def packages() -> tuple[tuple[str, int], ...]:
    """Return what changes when a package is installed, replaced or removed: folders and times."""
    return tuple((path, _changed_at(path)) for path in sys.path)


def declared_in(group: str) -> tuple[EntryPoint, ...]:
    """Return the entry points of a group, as of now: nothing need be restarted for a new one."""
    return _declared_in(group, packages())


@lru_cache(maxsize=8)
def _declared_in(group: str, stamps: tuple[tuple[str, int], ...]) -> tuple[EntryPoint, ...]:
    # To read all packages takes 10 ms, and a text may name a scheduler a thousand times.
    del stamps  # a package that is installed, replaced or removed changes them
    return tuple(entry_points(group=group))


def environment() -> dict[str, str]:
    """Return this process's environment for one that runs others' code: without our secrets.

    That is hygiene and no boundary, for it runs as the same user.
    """
    return {key: value for key, value in os.environ.items() if key not in _SECRETS}


def _changed_at(path: str) -> int:
    try:
        return os.stat(path).st_mtime_ns
    except OSError:
        return 0
