"""Reads programs, files and URLs, each for a bounded time and up to a maximum size."""

import os
import re
import shlex
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx

from mistbow.errors import MistbowError

MAX_BYTES = 8 * 2**20
TIMEOUT_S = 10.0
_COMMAND = "exec:"
_ADDRESS = re.compile(
    r"(?:[^/?#]*@)?((?:\[[^\]/?#@]*\]|[^:/?#@\[\]]*)(?::\d*)?(?:/[^?#]*)?)(?:[?#]|$)", re.DOTALL
)
"""Matches a URL after its scheme; the group is the host, the port and the path."""


class SourceError(MistbowError):
    """The error that a JSON source is unavailable, or does not return a list of points."""

    code = "source"


def source_name(source: str) -> str:
    """Return the name of a source without credentials, for logs, metrics and errors.

    >>> source_name("https://user:secret@host:80/points?token=secret")
    'https://host:80/points'
    >>> source_name("exec:/bin/curl -H 'Authorization: Bearer secret' http://host")
    'exec:curl'
    """
    if source.startswith(_COMMAND):
        return _COMMAND + _program_name(source.removeprefix(_COMMAND))
    scheme, is_url, rest = source.partition("://")
    if not is_url:
        return source
    address = _ADDRESS.match(rest)
    # A user and a password with a slash may look like a host and a port that is no number.
    return f"{scheme}://…" if address is None else f"{scheme}://{address[1]}"


def _program_name(command: str) -> str:
    try:
        words = shlex.split(command)
    except ValueError:  # a missing quotation mark
        words = command.split()
    # A command with an assignment, as in a shell, cannot be started.
    return Path(words[0].partition("=")[0]).name if words else ""


def read_source(source: str, name: str, timeout_s: float = TIMEOUT_S) -> bytes:
    """Return the content of ``http://…``, ``exec:COMMAND`` or a file.

    ``name``: the name of the source in errors, without its credentials. Raises
    ``SourceError`` if the source is unavailable, too large or too slow.
    """
    try:
        if source.startswith(("http://", "https://")):
            content = _read_url(source, timeout_s)
        elif source.startswith(_COMMAND):
            content = _read_output(shlex.split(source.removeprefix(_COMMAND)), timeout_s)
        else:
            content = _read_file(Path(source))
    except (OSError, ValueError, httpx.HTTPError, httpx.InvalidURL) as error:
        # Without the cause, whose text may contain the command or the URL.
        raise SourceError(f"cannot read {name}: {_describe(error)}") from None
    if len(content) > MAX_BYTES:
        raise SourceError(f"cannot read {name}: it has more than {MAX_BYTES} bytes")
    return content


def _describe(error: Exception) -> str:
    """Return the text of an error without the URL or the command."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror  # without the name of the file
    if isinstance(error, httpx.InvalidURL):
        return "the URL is invalid"
    return str(error) or type(error).__name__


def _read_file(path: Path) -> bytes:
    # To open a FIFO may last for ever, and a device may have no end.
    if path.exists() and not path.is_file():
        raise OSError("it is not a regular file")
    with path.open("rb") as file:
        return file.read(MAX_BYTES + 1)


def _read_url(url: str, timeout_s: float) -> bytes:
    end = time.monotonic() + timeout_s
    content = bytearray()
    with httpx.stream("GET", url, timeout=timeout_s) as answer:
        if not answer.is_success:
            raise OSError(f"the answer has the status {answer.status_code}")
        for part in answer.iter_bytes():
            content += part
            if len(content) > MAX_BYTES:
                break
            if time.monotonic() > end:
                raise OSError(f"the answer is not complete within {timeout_s:g} s")
    return bytes(content)


def _read_output(argv: list[str], timeout_s: float) -> bytes:
    if not argv:
        raise ValueError("the command is empty")
    with _running(argv, timeout_s) as (process, timed_out):
        output = process.stdout.read(MAX_BYTES + 1) if process.stdout else b""
        if len(output) > MAX_BYTES:
            return output
        status = process.wait()
    if timed_out.is_set():
        raise OSError(f"the command did not end within {timeout_s:g} s")
    if status:
        raise OSError(f"the command ended with the status {status}")
    return output


@contextmanager
def _running(
    argv: list[str], timeout_s: float
) -> Iterator[tuple[subprocess.Popen[bytes], threading.Event]]:
    """Yield a running command, and whether it took too long; at the end, kill it if it runs."""
    timed_out = threading.Event()
    with subprocess.Popen(
        argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True
    ) as process:

        def kill() -> None:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)

        def end() -> None:
            timed_out.set()
            kill()

        timer = threading.Timer(timeout_s, end)
        timer.start()
        try:
            yield process, timed_out
        finally:
            timer.cancel()
            if process.poll() is None:
                kill()
