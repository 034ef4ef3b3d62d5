"""Files that are replaced as a whole, and read again when they have changed."""

import os
from contextlib import suppress
from pathlib import Path

FileStamp = tuple[int, int, int]
"""The properties that differ between two versions of a file: change time, size, inode."""


def file_stamp(path: Path) -> FileStamp:
    """Return the stamp of a file; all numbers are 0 if it is missing."""
    try:
        status = path.stat()
    except OSError:
        return (0, 0, 0)
    return status.st_mtime_ns, status.st_size, status.st_ino


def write_file(path: Path, data: bytes, mode: int = 0o600, like: Path | None = None) -> None:
    """Write a file atomically and durably; after an ``OSError``, the former file is unchanged.

    ``mode``: the permissions of the file, also if it exists already. ``like``: a file whose owner
    and permissions the new file gets instead.
    """
    before = None if like is None else like.stat()
    new = path.with_name(f".{path.name}.new")
    try:
        with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode), "wb") as file:
            if before is not None:
                os.fchown(file.fileno(), before.st_uid, before.st_gid)
            os.fchmod(file.fileno(), mode if before is None else before.st_mode & 0o777)
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(new, path)
    except OSError:
        with suppress(OSError):
            new.unlink()
        raise
