"""The process that loads all modules once, and forks a process for each launcher that asks.

``python -m analytics_worker.spark.fork_server.server FD``; ``FD``: the listening socket. The server
ends when its standard input is closed.
"""

import contextlib
import importlib
import marshal
import os
import runpy
import selectors
import signal
import socket
import sys
import traceback
import warnings
from dataclasses import dataclass
from typing import NoReturn

from analytics_worker.spark.fork_server.launcher import PID_BYTES, STANDARD_STREAMS

_TIMEOUT_S = 5.0
_MAX_FD = 1024
_CHUNK_BYTES = 65536


@dataclass(frozen=True, slots=True)
class Request:
    """The command of a launcher; ``streams``: the descriptors of its standard streams."""

    arguments: list[str]
    environment: dict[str, str]
    folder: str
    streams: list[int]


def serve(listener: socket.socket) -> None:
    """Answer launchers until the standard input is closed."""
    # Without a wait for its end, the CPU time of a process would be missing in the worker's
    # figures.
    signal.signal(signal.SIGCHLD, _reap)
    # An interrupt is for the worker.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with selectors.DefaultSelector() as selector:
        selector.register(listener, selectors.EVENT_READ)
        selector.register(sys.stdin, selectors.EVENT_READ)
        while True:
            ready = {key.fileobj for key, _ in selector.select()}
            if sys.stdin in ready:
                return
            connection, _ = listener.accept()
            try:
                _answer(connection)
            except OSError:
                traceback.print_exc()
            finally:
                connection.close()


def _reap(_: int, __: object) -> None:
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _answer(connection: socket.socket) -> None:
    connection.settimeout(_TIMEOUT_S)
    request = _receive(connection)
    pid = os.fork()
    if pid == 0:
        _become(request, connection)
    for descriptor in request.streams:
        os.close(descriptor)
    connection.sendall(pid.to_bytes(PID_BYTES, "big"))


def _receive(connection: socket.socket) -> Request:
    text, streams, _, _ = socket.recv_fds(connection, _CHUNK_BYTES, len(STANDARD_STREAMS))
    while chunk := connection.recv(_CHUNK_BYTES):
        text += chunk
    if len(streams) != len(STANDARD_STREAMS):
        raise ConnectionError("a launcher has sent no standard streams")
    arguments, environment, folder = marshal.loads(text)  # noqa: S302 - of the same user
    return Request(arguments, environment, folder, streams)


def _become(request: Request, connection: socket.socket) -> NoReturn:
    """Run the command of a launcher in this forked process, and end the process."""
    try:
        _take_over(request, connection)
        _run(request.arguments)
    except BaseException:
        traceback.print_exc()
    finally:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        os._exit(0)


def _take_over(request: Request, connection: socket.socket) -> None:
    """Take over the streams, the environment and the folder of a launcher."""
    for number in (signal.SIGCHLD, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for descriptor, stream in zip(request.streams, STANDARD_STREAMS, strict=True):
        os.dup2(descriptor, stream)
    # The launcher waits until this process, and with it this descriptor, is gone.
    kept = len(STANDARD_STREAMS)
    os.dup2(connection.detach(), kept)
    os.closerange(kept + 1, _MAX_FD)
    os.environ.clear()
    os.environ.update(request.environment)
    os.chdir(request.folder)
    _extend_path(request.environment.get("PYTHONPATH", ""))
    # A package of operators may have been installed since the server has started.
    importlib.invalidate_caches()


def _extend_path(folders: str) -> None:
    """Put the folders of a launcher's ``PYTHONPATH`` first, as an interpreter does."""
    added = [folder for folder in folders.split(os.pathsep) if folder and folder not in sys.path]
    sys.path[:0] = added


def _run(arguments: list[str]) -> None:
    _, module, *rest = arguments
    sys.argv = [module, *rest]
    # The server has imported the module: it runs once more, as the main module.
    warnings.filterwarnings("ignore", ".* found in sys.modules after import", RuntimeWarning)
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    except SystemExit as ended:
        if not isinstance(ended.code, int | None):
            print(ended.code, file=sys.stderr)


if __name__ == "__main__":
    import analytics_worker.spark.fork_server.preload  # noqa: F401

    serve(socket.socket(fileno=int(sys.argv[1])))
