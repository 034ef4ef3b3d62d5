"""The settings of Ignite's caches on which the agent relies."""

from pyignite import Client

from ignite_server.ports import LOOPBACK
from ignite_server.server import IgniteServer
from storage_agent.ignite.client import METADATA, IgniteClient
from tests.support.conditions import aeventually


async def test_client_rejects_an_ignite_with_another_template_and_leaves_no_cache(
    ignite: IgniteServer,
) -> None:
    client = Client(timeout=10)
    with client.connect(LOOPBACK, ignite.port):
        for name in client.get_cache_names():
            client.get_cache(name).destroy()
        here = (LOOPBACK, ignite.port)
        # As if one of several nodes was started without the addresses of the others.
        several = IgniteClient([here, here])

        async def refused() -> bool:
            return "template" in several.refusal

        several.start()
        try:
            await aeventually(refused, what="it is refused")
            assert not several.connected
            assert client.get_cache_names() == []
        finally:
            await several.close()
        alone = IgniteClient([here])
        alone.start()
        try:
            assert await alone.wait_connected(10)
            await alone.put(METADATA, "a", b"b")
        finally:
            await alone.close()
