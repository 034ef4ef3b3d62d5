"""Finding free TCP ports, and telling whether one is taken, on loopback."""

import random
import socket

LOOPBACK = "127.0.0.1"

# None that the system itself gives away, to a connection or for port 0: while a server that keeps
# its port is down, somebody else would have it.
_PORTS = range(20_000, 32_000)


def free_ports(count: int) -> list[int]:
    """Return ``count`` different ports that nothing listens on at the moment."""
    found: set[int] = set()
    while len(found) < count:
        # Not by the seed of this process: another one may have the same.
        port = random.SystemRandom().choice(_PORTS)
        if not is_taken(port):
            found.add(port)
    return list(found)


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
