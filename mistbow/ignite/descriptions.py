"""Ignite's descriptions of its caches: files that it writes without a sync, and needs to read."""

import os
from pathlib import Path


def sync_descriptions(folder: Path) -> None:
    """Have the descriptions of all caches in Ignite's ``folder`` survive a power cut.

    Ignite 2.17 writes and renames them, and leaves the rest to the system; after a cut within the
    next half minute they are empty, and then it takes every synced row of these caches for none.
    Where Ignite is elsewhere there is nothing here. Raises ``OSError``.
    """
    for description in folder.glob("db/*/*/*cache_data.dat"):
        _sync(description)
        _sync(description.parent)


def _sync(path: Path) -> None:
    opened = os.open(path, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
