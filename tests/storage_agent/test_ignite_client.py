"""Whether the caches that Ignite makes are such as the agent can build on."""

from pyignite import Client

from mistbow.ignite.server import IgniteServer
from mistbow.ports import LOOPBACK
from storage_agent.ignite_client import METADATA, IgniteClient
from tests.support.waiting import aeventually


async def test_an_ignite_that_makes_other_caches_is_refused_and_keeps_none(
    ignite: IgniteServer,
) -> None:
    client = Client(timeout=10)
    with client.connect(LOOPBACK, ignite.port):
        for name in client.get_cache_names():
            client.get_cache(name).destroy()
        here = (LOOPBACK, ignite.port)
        # As where one of several nodes was started without being told of the others.
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
