"""Files that only their owner can use: the umask of a process, and the modes of earlier files."""

import errno
import os
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

from mistbow.os_faults import fault_of

_UMASK = 0o077
_OTHERS = 0o077
_OWN = ("agent", "ignite", "jars", "logs", "*.lock")
"""The names of the files and folders that services and commands create in a home.

The build of the image creates the other folders of a home, whose files containers must read.
"""


def hide_new_files() -> None:
    """Let only the owner use the files that this process and its children create from now on."""
    os.umask(_UMASK)


def home_problem(home: Path) -> str | None:
    """Create a home, and return why no files can be created in it; None: files can be created.

    A full disk is no problem here: services start on it, and report it.
    """
    try:
        home.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=home):
            return None
    except OSError as error:
        fault = fault_of(error)
        if error.errno in (errno.ENOSPC, errno.EDQUOT) and home.is_dir():
            return None
        return str(fault) if fault is not None else f"{home}: {error.strerror}"


def make_home(home: Path) -> list[str]:
    """Create a home that only its owner can use, and restrict the modes of existing files.

    Return the problems, one line each. Files of another user, and folders with the sticky bit such
    as ``/tmp``, do not change. The umask hides new files too.
    """
    hide_new_files()
    home.mkdir(parents=True, exist_ok=True)
    if home.stat().st_mode & stat.S_ISVTX:
        return [f"{home} is a folder that users share: choose a folder of its own as home"]
    return [problem for path in (home, *_own_files(home)) if (problem := _close(path))]


def _own_files(home: Path) -> Iterator[Path]:
    for pattern in _OWN:
        for path in home.glob(pattern):
            yield path
            if path.is_dir() and not path.is_symlink():
                for folder, folders, files in os.walk(path):
                    yield from (Path(folder, name) for name in (*folders, *files))


def _close(path: Path) -> str | None:
    """Remove the rights of other users; return the problem if this user may not."""
    try:
        status = path.lstat()
        if stat.S_ISLNK(status.st_mode) or not status.st_mode & _OTHERS:
            return None
        path.chmod(stat.S_IMODE(status.st_mode) & ~_OTHERS)
    except FileNotFoundError:
        return None  # another process has deleted it meanwhile
    except OSError as error:
        return f"{path} is open to other users, and cannot be closed: {error.strerror}"
    return None
