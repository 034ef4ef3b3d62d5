"""Finds free TCP ports on loopback."""

import random

from mistbow.ports import is_taken

LOOPBACK = "127.0.0.1"

# Outside the ephemeral range, from which the system assigns ports: otherwise another process could
# take the port of a server while that server restarts.
_PORTS = range(20_000, 32_000)


def free_ports(count: int) -> list[int]:
    """Return ``count`` different ports on loopback on which no process listens now."""
    found: set[int] = set()
    while len(found) < count:
        # Independent of the seed of this process, which another process may share.
        port = random.SystemRandom().choice(_PORTS)
        if not is_taken(port, LOOPBACK):
            found.add(port)
    return list(found)
