"""The content of an Ignite server between tests, and its stalls."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager

from pyignite import Client

from ignite_server.ports import LOOPBACK
from ignite_server.server import IgniteServer


def empty(server: IgniteServer) -> None:
    """Remove all data of a server."""
    client = Client(timeout=10)
    with client.connect(LOOPBACK, server.port):
        for name in client.get_cache_names():
            # Not clear(), which a crash undoes.
            client.get_cache(name).remove_all()


@contextmanager
def frozen(server: IgniteServer) -> Iterator[None]:
    """Stop the process of a server, which answers nothing until the end of the block."""
    assert server.pid is not None
    os.kill(server.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(server.pid, signal.SIGCONT)
