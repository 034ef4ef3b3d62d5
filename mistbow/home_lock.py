"""The lock of a home folder: at most one process of each service runs in a home folder."""

import contextlib
import fcntl
import os
import socket
from collections.abc import Iterator
from pathlib import Path

from mistbow.errors import ConflictError, MistbowError


@contextlib.contextmanager
def home_lock(home: Path, name: str, owner: str) -> Iterator[int]:
    """Lock ``home/NAME.lock`` for this process, and yield the file descriptor of the lock.

    ``owner`` describes this process in errors, also in those of other processes, such as ``mistbow
    agent``. The system releases the lock when the process ends for any reason. Raises
    ``ConflictError`` with the description of the other process if another process has the lock, and
    ``MistbowError`` if the file system has no locks.
    """
    home.mkdir(parents=True, exist_ok=True)
    with (home / f"{name}.lock").open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            file.seek(0)
            holder, process = _holder(file.read(), owner)
            raise ConflictError(
                f"{holder} already runs in {home.absolute()}, as {process}",
                hint="stop that process, or start this one with another --home and other ports",
            ) from error
        except OSError as error:
            raise MistbowError(
                f"{home.absolute()} cannot be locked for {owner}: {error.strerror}",
                hint="choose another --home, on a file system with locks, such as a local disk",
            ) from error
        file.truncate(0)
        # With the host's name: other hosts and containers may share the folder. The lock needs no
        # text, and on a full disk there is none.
        with contextlib.suppress(OSError):
            os.write(file.fileno(), f"{os.getpid()} {socket.gethostname()} {owner}\n".encode())
        yield file.fileno()


def _holder(text: str, owner: str) -> tuple[str, str]:
    """Return the description of the process that wrote a text, and its id.

    ``owner``: the description if the text has none, as texts of earlier versions.
    """
    match text.split(maxsplit=2):
        case [pid]:
            return owner, f"process {pid}"
        case [pid, host]:
            return owner, f"process {pid} on {host}"
        case [pid, host, holder]:
            return holder.strip(), f"process {pid} on {host}"
    return owner, "another process"
