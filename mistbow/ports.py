"""Finding free TCP ports, and telling whether one is taken, on loopback."""

import socket
from contextlib import ExitStack

LOOPBACK = "127.0.0.1"


def free_ports(count: int) -> list[int]:
    """Return ``count`` different ports that nothing listens on at the moment."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind((LOOPBACK, 0))
        return [int(each.getsockname()[1]) for each in sockets]


def is_taken(port: int, host: str = LOOPBACK) -> bool:
    """Return whether a server on ``host`` could not listen on ``port`` now."""
    with socket.socket() as probe:
        # As servers do: a connection of a former server in TIME_WAIT is no hindrance.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return True
        return False
