"""The content of an Ignite server between tests."""

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
