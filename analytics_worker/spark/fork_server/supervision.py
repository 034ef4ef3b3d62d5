"""The supervision of the fork server by the worker."""

import functools
import os
import shlex
import socket
import subprocess
import sys
from pathlib import Path

from analytics_worker.scratch_folder import scratch_folder
from analytics_worker.spark.fork_server import launcher
from analytics_worker.spark.installed_files import installed_folder, share_installation, write_file
from mistbow.runtime.periodic import PeriodicThread, Schedule
from mistbow.telemetry import get_logger

log = get_logger(__name__)

_FRUGAL = {"ARROW_DEFAULT_MEMORY_POOL": "system", "MALLOC_ARENA_MAX": "2"}
"""Environment variables with which the processes return freed memory instead of keeping it."""

_PAUSE_S = 1.0
_BACKLOG = 256


@functools.cache
def start_fork_server() -> str:
    """Start the fork server of this process, and return the program that Spark calls as Python.

    The server ends with this process. A server that has ended otherwise is started again after 1 s;
    launchers wait meanwhile. If the program cannot be written, return Python itself.
    """
    try:
        program = _write_program()
    except OSError as error:
        log.warning("fork_server_missing", reason=str(error))
        return sys.executable
    address = scratch_folder() / "fork-server.sock"
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(str(address))
    listener.listen(_BACKLOG)
    os.environ[launcher.ADDRESS] = str(address)
    run = functools.partial(_run_server, listener)
    PeriodicThread(run, Schedule("fork_server", interval_s=_PAUSE_S)).start()
    return str(program)


def _write_program() -> Path:
    """Write a script that starts the launcher, since Spark passes Python no options."""
    program = installed_folder() / "spark-python"
    command = shlex.join([sys.executable, "-I", "-S", launcher.__file__])
    write_file(program, f'#!/bin/sh\nexec {command} "$@"\n', mode=0o755)
    share_installation()
    return program


def _run_server(listener: socket.socket) -> None:
    """Run the server until it ends."""
    descriptor = listener.fileno()
    with subprocess.Popen(
        [sys.executable, "-m", "analytics_worker.spark.fork_server.server", str(descriptor)],
        # The server's end of this pipe is closed when this process ends.
        stdin=subprocess.PIPE,
        pass_fds=[descriptor],
        # As Spark sets them for its Python processes.
        env={**os.environ, **_FRUGAL, "PYTHONHASHSEED": "0", "PYTHONUNBUFFERED": "1"},
    ) as server:
        status = server.wait()
    log.warning("fork_server_ended", status=status)
