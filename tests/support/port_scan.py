"""A scan of ports in and from the network namespace of the calling thread."""

import errno
import select
import socket
import time
from collections.abc import Iterable
from itertools import islice
from pathlib import Path

Endpoint = tuple[str, int]
"""An address and a port."""

_AT_ONCE = 512
"""Fewer than the usual limit of open files, 1,024."""

_WAIT_S = 1.0

_LISTEN = "0A"
"""The state of listening sockets in the kernel's tables."""

_BOUND = "07"
"""The state of UDP sockets that receive from any address."""

_NAME_SERVER = "0B00007F"
"""127.0.0.11 in the kernel's tables."""


def listening_ports() -> set[int]:
    """Return the TCP ports on which sockets listen, except those of the name server of Docker."""
    return _ports_of(("tcp", "tcp6"), _LISTEN)


def udp_ports() -> set[int]:
    """Return the UDP ports to which any address can send, except those of Docker's name server."""
    return _ports_of(("udp", "udp6"), _BOUND)


def _ports_of(protocols: Iterable[str], state: str) -> set[int]:
    tables = (Path(f"/proc/thread-self/net/{name}").read_text() for name in protocols)
    rows = (line.split() for table in tables for line in table.splitlines()[1:])
    endpoints = (row[1].split(":") for row in rows if row[3] == state)
    return {int(port, 16) for address, port in endpoints if address != _NAME_SERVER}


def open_endpoints(endpoints: Iterable[Endpoint]) -> set[Endpoint]:
    """Return the endpoints that accept connections.

    An endpoint without an answer within a second is not open: a firewall discards its packets, or
    the address has no host.
    """
    found: set[Endpoint] = set()
    remaining = iter(endpoints)
    while some := list(islice(remaining, _AT_ONCE)):
        found |= _open_of(some)
    return found


def _open_of(endpoints: Iterable[Endpoint]) -> set[Endpoint]:
    """Return which of the endpoints accept a connection; all are tried at the same time."""
    poll = select.epoll()
    waiting: dict[int, tuple[socket.socket, Endpoint]] = {}
    found = set()
    try:
        for endpoint in endpoints:
            each = socket.socket(socket.AF_INET, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
            error = each.connect_ex(endpoint)
            if error == errno.EINPROGRESS:
                waiting[each.fileno()] = (each, endpoint)
                poll.register(each, select.EPOLLOUT)
                continue
            if error == 0:
                found.add(endpoint)
            each.close()
        deadline = time.monotonic() + _WAIT_S
        while waiting and (events := poll.poll(max(0.0, deadline - time.monotonic()))):
            for descriptor, _ in events:
                each, endpoint = waiting.pop(descriptor)
                if _is_connected(each):
                    found.add(endpoint)
                each.close()
    finally:
        for each, _ in waiting.values():
            each.close()
        poll.close()
    return found


def _is_connected(each: socket.socket) -> bool:
    """Return whether a socket is connected to another one.

    On loopback, the kernel may choose the tried port as the socket's own, and connect the socket to
    itself.
    """
    if each.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) != 0:
        return False
    return bool(each.getsockname() != each.getpeername())
