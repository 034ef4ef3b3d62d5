"""Finds free TCP ports on loopback."""

import errno
import random
import socket
from collections import deque

from mistbow.ports import is_taken

LOOPBACK = "127.0.0.1"

# Outside the ephemeral range, from which the system assigns ports: otherwise another process could
# take the port of a server while that server restarts.
_PORTS = range(20_000, 32_000)

_MAX_RESERVED = 200
_reserved: deque[socket.socket] = deque()
"""The UDP sockets that reserve the ports found last, at most ``_MAX_RESERVED``.

A server listens on its port some time after the port was found. Until then, no search may find the
port again, in this process or another one, so each search checks the UDP port of this number too.
"""


def free_ports(count: int) -> list[int]:
    """Return ``count`` different ports on loopback on which no process listens now.

    No other search finds these ports soon.
    """
    found: set[int] = set()
    while len(found) < count:
        # Independent of the seed of this process, which another process may share.
        port = random.SystemRandom().choice(_PORTS)
        if not is_taken(port, LOOPBACK) and _reserve(port):
            found.add(port)
    return list(found)


def _reserve(port: int) -> bool:
    """Reserve a port; return False if another search has reserved it.

    A port that cannot be reserved for another reason is free, but may be found again.
    """
    reservation = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    try:
        reservation.bind((LOOPBACK, port))
    except OSError as error:
        reservation.close()
        return error.errno != errno.EADDRINUSE
    _reserved.append(reservation)
    if len(_reserved) > _MAX_RESERVED:
        _reserved.popleft().close()
    return True
