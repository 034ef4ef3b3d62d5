"""A worker's folder for what does not outlive it."""

import os
import shutil
import tempfile
from pathlib import Path

import psutil

_NAME = "mistbow-spark-"
_ROOMY = 200 * 2**20
_MEMORY_DISK = Path("/dev/shm")  # noqa: S108 - a memory file system, made private below


def scratch_folder() -> Path:
    """Make a folder for checkpoints and spill, in memory where there is room for it.

    Nothing in it outlives the worker: after a restart queries replay from the streams. What
    workers that were killed have left is removed.
    """
    parent = _MEMORY_DISK if _has_room(_MEMORY_DISK) else Path(tempfile.gettempdir())
    for left_over in parent.glob(f"{_NAME}*"):
        owner = left_over.name.removeprefix(_NAME)
        if owner.isdigit() and not psutil.pid_exists(int(owner)):
            shutil.rmtree(left_over, ignore_errors=True)
    folder = parent / f"{_NAME}{os.getpid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    if folder.is_symlink() or folder.stat().st_uid != os.getuid():
        raise PermissionError(f"{folder} belongs to somebody else")
    return folder


def _has_room(folder: Path) -> bool:
    # A container's memory file system may be of 64 MB, too little for Spark to spill to.
    return os.access(folder, os.W_OK) and shutil.disk_usage(folder).total >= _ROOMY
