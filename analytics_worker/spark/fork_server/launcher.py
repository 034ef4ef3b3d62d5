"""The program that Spark starts instead of Python: it asks the fork server for a process.

The launcher runs without ``site`` and imports few modules, so it starts in some milliseconds. It
ends when the forked process ends, and passes signals on to it. It always exits with 0, since Spark
reads no exit status of its Python processes.
"""

import marshal
import os
import socket
import sys

ADDRESS = "MISTBOW_FORK_SERVER"
"""The environment variable for the path of the fork server's socket."""

STANDARD_STREAMS = (0, 1, 2)
PID_BYTES = 4

_PROCESS = 3
"""The descriptor whose other end the forked process has; the process sends nothing."""

_WAIT = f"""
trap 'kill -TERM "$0"' TERM
trap 'kill -INT "$0"' INT
trap 'kill -HUP "$0"' HUP
read -r _ <&{_PROCESS}
read -r _ <&{_PROCESS}
exit 0
"""
"""The script that waits for the end of a process; a signal ends the first ``read``."""


def main() -> None:
    """Ask for a process that runs the module of the arguments, and wait until it ends.

    Other arguments are passed to Python: Spark asks for the version of Python with ``-c``.
    """
    if sys.argv[1:2] != ["-m"]:
        os.execv(sys.executable, [sys.executable, *sys.argv[1:]])  # noqa: S606 - no shell is needed
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.connect(os.environ[ADDRESS])
        request = marshal.dumps((sys.argv[1:], dict(os.environ), os.getcwd()))
        socket.send_fds(connection, [request[:1]], STANDARD_STREAMS)
        connection.sendall(request[1:])
        connection.shutdown(socket.SHUT_WR)
        answer = connection.recv(PID_BYTES)
        if not answer:
            sys.exit("the fork server has ended")
        pid = int.from_bytes(answer, "big")
        os.dup2(connection.detach(), _PROCESS)
        os.set_inheritable(_PROCESS, True)
    # A shell waits: it takes 0.2 MB, an interpreter 3 MB.
    os.execv("/bin/sh", ["sh", "-c", _WAIT, str(pid)])  # noqa: S606 - the shell is needed


if __name__ == "__main__":
    main()
