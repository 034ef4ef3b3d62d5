"""One run at a time in a home folder, on ports that are free."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mistbow.errors import ConflictError
from mistbow.ports import is_taken
from mistbow.settings import IgniteSettings


@contextmanager
def only_run(home: Path) -> Iterator[int]:
    """Hold the lock of ``home``, and yield its file descriptor.

    Raises ``ConflictError`` when another run, or the end of one, holds it.
    """
    home.mkdir(parents=True, exist_ok=True)
    with (home / "run.lock").open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            file.seek(0)
            raise ConflictError(
                f"the suite of {home} runs already, as process {file.read().strip()}",
                hint="stop that one, or give this one a --home and ports of its own",
            ) from error
        file.truncate(0)
        file.write(f"{os.getpid()}\n")
        file.flush()
        yield file.fileno()


def check_ports(settings: IgniteSettings) -> None:
    """Raise ``ConflictError`` naming the ports that are taken, and their settings."""
    taken = {name: port for name, port in settings.ports.items() if is_taken(port)}
    if taken:
        ports = ", ".join(f"{port} (MISTBOW_{name.upper()})" for name, port in taken.items())
        raise ConflictError(f"in use: port {ports}", hint="stop what listens there, or set another")
