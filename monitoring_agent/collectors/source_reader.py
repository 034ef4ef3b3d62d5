"""Reads programs, files and URLs, each for a bounded time and up to a maximum size."""

import os
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


class SourceError(MistbowError):
    """The error that a JSON source is unavailable, or does not return a list of points."""

    code = "source"


def read_source(source: str, timeout_s: float = TIMEOUT_S) -> bytes:
    """Return the content of ``http://…``, ``exec:COMMAND`` or a file.

    Raises ``SourceError`` if it is unavailable, too large or too slow.
    """
    try:
        if source.startswith(("http://", "https://")):
            content = _read_url(source, timeout_s)
        elif source.startswith(_COMMAND):
            content = _read_output(shlex.split(source.removeprefix(_COMMAND)), timeout_s)
        else:
            content = _read_file(Path(source))
    except (OSError, ValueError, httpx.HTTPError, httpx.InvalidURL) as error:
        raise SourceError(f"cannot read {source}: {error}") from error
    if len(content) > MAX_BYTES:
        raise SourceError(f"cannot read {source}: it has more than {MAX_BYTES} bytes")
    return content


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
        answer.raise_for_status()
        for part in answer.iter_bytes():
            content += part
            if len(content) > MAX_BYTES:
                break
            if time.monotonic() > end:
                raise OSError(f"the answer is not complete within {timeout_s:g} s")
    return bytes(content)


def _read_output(argv: list[str], timeout_s: float) -> bytes:
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
