"""TCP ports: whether a server can listen on a port, and which process uses the port."""

import errno
import socket
from collections.abc import Mapping

import psutil

from mistbow.errors import ConflictError


def is_taken(port: int, host: str) -> bool:
    """Return whether another socket uses ``port`` at ``host``, so that a server could not listen.

    Other errors do not count, for example if ``host`` is an address of another machine: the server
    reports them itself.
    """
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except OSError:
        return False
    return any(_is_in_use(family, address) for family, _, _, _, address in found)


def check_ports(ports: Mapping[str, int], host: str) -> None:
    """Raise ``ConflictError`` if ports at ``host`` are in use.

    ``ports``: name of the setting -> port; the port 0 is not checked. The error names each used
    port, the setting and the process that uses the port.
    """
    taken = {name: port for name, port in ports.items() if port and is_taken(port, host)}
    if taken:
        names = ", ".join(
            f"port {port} (MISTBOW_{name.upper()}) by {user_of(port)}"
            for name, port in taken.items()
        )
        raise ConflictError(
            f"these ports are in use: {names}",
            hint="stop the process that uses the port, or set another port",
        )


def user_of(port: int) -> str:
    """Return a description of the process that uses a port of this machine, for error messages.

    A process that listens on the port is preferred to a process that only has a connection.
    """
    try:
        sockets = psutil.net_connections("tcp")
    except psutil.Error:  # not permitted on every system
        return "an unknown process"
    users = [each for each in sockets if each.laddr and each.laddr.port == port]
    users.sort(key=lambda each: (each.status != psutil.CONN_LISTEN, each.pid is None))
    if not users or users[0].pid is None:
        return "a process of another user"
    pid: int = users[0].pid
    try:
        return f"process {pid} ({psutil.Process(pid).name()})"
    except psutil.Error:  # it has just ended, or is hidden
        return f"process {pid}"


def _is_in_use(family: int, address: tuple[object, ...]) -> bool:
    with socket.socket(family) as probe:
        # As servers do, so that a connection in TIME_WAIT does not count as use.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            probe.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        try:
            probe.bind(address)
        except OSError as error:
            return error.errno == errno.EADDRINUSE
        return False
