"""The folder for the temporary files of a worker."""

import os
import shutil
import tempfile
from pathlib import Path

import psutil

_PREFIX = "mistbow-spark-"
_MIN_BYTES = 200 * 2**20
_MEMORY_DISK = Path("/dev/shm")  # noqa: S108 - a memory file system, made private below


def scratch_folder() -> Path:
    """Create the folder for Spark's checkpoints and spilled data, and return its path.

    The folder is in memory if the memory file system has at least 200 MiB, else on disk. Queries do
    not need the files after a restart, since queries replay their streams. The folders of workers
    that were killed are deleted. Raises ``PermissionError`` if the folder belongs to another user.
    """
    parent = _MEMORY_DISK if _is_large_enough(_MEMORY_DISK) else Path(tempfile.gettempdir())
    for folder in parent.glob(f"{_PREFIX}*"):
        pid = folder.name.removeprefix(_PREFIX)
        if pid.isdigit() and not psutil.pid_exists(int(pid)):
            shutil.rmtree(folder, ignore_errors=True)
    folder = parent / f"{_PREFIX}{os.getpid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    if folder.is_symlink() or folder.stat().st_uid != os.getuid():
        raise PermissionError(
            f"the folder {folder} belongs to another user: delete the folder, or run as its owner"
        )
    return folder


def _is_large_enough(folder: Path) -> bool:
    # A container's memory file system may have 64 MB, too little for Spark to spill to.
    return os.access(folder, os.W_OK) and shutil.disk_usage(folder).total >= _MIN_BYTES
