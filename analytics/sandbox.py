"""The sandbox: a process that runs code of another package, with a time limit and without secrets.

The sandbox is a process, since a thread that hangs cannot be killed. The environment without
secrets is no security boundary, since the process runs as the same user.

A service calls ``run`` to get one answer from a new process. To get several answers from one
process, a service calls ``start`` and ``kill``. The module that runs in the process writes its
answers to the file that ``answers`` yields.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import BinaryIO

from mistbow.runtime.environment import inherited_environment

_MAX_TAIL = 500
"""The maximum number of characters that an error message quotes from stderr."""


class SandboxError(Exception):
    """The error that a process gave no complete answer.

    ``output``: the bytes that the process wrote to stdout.
    """

    def __init__(self, message: str, output: bytes = b"") -> None:
        super().__init__(message)
        self.output = output


def run(module: str, arguments: Sequence[str], message: bytes, limit_s: float) -> bytes:
    """Run a module of Mistbow with ``message`` as stdin, and return its stdout.

    Each call starts a new process, so no state of foreign code outlives an answer. Raises
    ``SandboxError`` if the process fails. A process that takes longer than ``limit_s`` is killed,
    which also raises ``SandboxError``.
    """
    with start(module, arguments, stderr=subprocess.PIPE) as process:
        try:
            output, errors = process.communicate(message, limit_s)
        except subprocess.TimeoutExpired as late:
            kill(process)
            raise SandboxError(f"no answer within {limit_s:g} s", late.stdout or b"") from None
    if process.returncode != 0:
        raise SandboxError(failure(process.returncode, errors), output)
    return output


def start(
    module: str, arguments: Sequence[str], stderr: int | None = None
) -> subprocess.Popen[bytes]:
    """Start a module of Mistbow as a process in a process group of its own.

    The process has pipes as stdin and stdout. ``stderr``: an argument of ``subprocess.Popen``;
    None: the process inherits stderr.
    """
    return subprocess.Popen(
        [sys.executable, "-P", "-m", module, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=stderr,
        env=inherited_environment(),
        start_new_session=True,
    )


def kill(process: subprocess.Popen[bytes]) -> None:
    """Kill a process and its process group; do not call this function after ``process.wait``."""
    os.killpg(process.pid, signal.SIGKILL)


@contextmanager
def answers() -> Iterator[BinaryIO]:
    """Yield a file that writes answers to stdout; everything that code prints goes to stderr."""
    with os.fdopen(os.dup(sys.stdout.fileno()), "wb") as stream:
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
        yield stream


def failure(code: int, errors: bytes) -> str:
    """Return why a process failed; ``code``: its exit code, ``errors``: its stderr."""
    lines = errors.decode(errors="replace").strip().splitlines()
    if lines and code == 1:
        return lines[-1][:_MAX_TAIL]
    return (
        f"the process exited with code {code}" if code >= 0 else f"signal {-code} ended the process"
    )
