"""Ignite between tests."""

from pyignite import Client

from mistbow.ignite.server import IgniteServer
from mistbow.ports import LOOPBACK


def empty(server: IgniteServer) -> None:
    """Remove all that the server holds."""
    client = Client(timeout=10)
    with client.connect(LOOPBACK, server.port):
        for name in client.get_cache_names():
            # Not clear(), which a crash undoes.
            client.get_cache(name).remove_all()
