"""Faults of the machine that are expected, such as a full disk: described in one line."""

import errno
import os
from collections.abc import Iterator
from dataclasses import dataclass

_HINTS = {
    errno.ENOSPC: "free space on this disk",
    errno.EDQUOT: "free space, or raise the quota of this user",
    errno.EROFS: "make this file system writable, or choose another folder",
    errno.EACCES: "give this user access to it, or choose another folder",
    errno.EPERM: "give this user access to it, or choose another folder",
    errno.EIO: "check this disk",
    errno.ENOTDIR: "remove the file that is in the place of a folder",
    errno.EEXIST: "remove it, or choose another folder",
    errno.EMFILE: "raise the limit of open files (ulimit -n)",
    errno.ENFILE: "raise the limit of open files of this machine (fs.file-max)",
    errno.ENOMEM: "free memory of this machine",
}


@dataclass(frozen=True, slots=True)
class OsFault:
    """An expected fault. ``message``: what failed, and where. ``hint``: what to do."""

    message: str
    hint: str

    def __str__(self) -> str:
        return f"{self.message}; {self.hint}"


def fault_of(error: BaseException | None) -> OsFault | None:
    """Return the description of an expected fault; None: the error is another one.

    >>> str(fault_of(OSError(errno.ENOSPC, "No space left on device", "/data/heads.new")))
    '/data/heads.new: No space left on device; free space on this disk'
    """
    if not isinstance(error, OSError) or error.errno not in _HINTS:
        return None
    where = "" if error.filename is None else f"{error.filename}: "
    return OsFault(f"{where}{error.strerror}", _HINTS[error.errno])


def described_faults() -> Iterator[tuple[str, str]]:
    """Yield (the system's text, the text with the hint) of the faults of disks.

    >>> dict(described_faults())["No space left on device"]
    'No space left on device; free space on this disk'
    """
    for number in (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO):
        problem = os.strerror(number)
        yield problem, f"{problem}; {_HINTS[number]}"
