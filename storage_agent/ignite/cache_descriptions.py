"""Forces the configuration files of Ignite's caches onto the disk, which Ignite neglects."""

import os
from pathlib import Path


def sync_descriptions(folder: Path) -> None:
    """Force the configuration files of Ignite's caches onto the disk (fsync).

    Ignite 2.17 writes these files without fsync. If the power fails within the next half minute,
    the files are empty afterwards, and Ignite ignores all rows of these caches.

    ``folder``: Ignite's directory. If Ignite runs on another machine, the directory has no such
    files, and the function does nothing. Raises ``OSError`` if fsync fails.
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
