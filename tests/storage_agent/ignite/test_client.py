"""The settings of Ignite's caches on which the agent relies."""

import asyncio

from pyignite import Client

from ignite_server.ports import LOOPBACK
from ignite_server.server import IgniteServer
from mistbow.errors import UnavailableError
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
            await aeventually(refused, what="the agent refuses Ignite")
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


class _StalledRelay:
    """Forwards connections to a port; while it stalls, it forwards requests, but no answers."""

    def __init__(self, port: int) -> None:
        self.flowing = asyncio.Event()
        self.flowing.set()
        self.opened = 0
        self._port = port
        self._writers: list[asyncio.StreamWriter] = []

    def stall(self) -> None:
        """Break all connections, and withhold the answers of further connections."""
        self.flowing.clear()
        for writer in self._writers:
            writer.transport.abort()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.opened += 1
        self._writers.append(writer)
        answers, requests = await asyncio.open_connection(LOOPBACK, self._port)
        try:
            async with asyncio.TaskGroup() as both:
                both.create_task(self._copy(reader, requests, stallable=False))
                both.create_task(self._copy(answers, writer, stallable=True))
        except* ConnectionError:
            pass
        finally:
            requests.close()
            writer.close()

    async def _copy(
        self, source: asyncio.StreamReader, target: asyncio.StreamWriter, *, stallable: bool
    ) -> None:
        while data := await source.read(65536):
            if stallable:
                await self.flowing.wait()
            target.write(data)
        target.close()


async def test_client_opens_no_connection_beside_its_own_after_the_connection_broke(
    ignite: IgniteServer,
) -> None:
    failures: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: failures.append(context))
    relay = _StalledRelay(ignite.port)
    server = await asyncio.start_server(relay.serve, LOOPBACK, 0)
    client = IgniteClient([(LOOPBACK, server.sockets[0].getsockname()[1])])
    client.start()
    try:
        assert await client.wait_connected(10)
        opened = relay.opened
        relay.stall()
        # The connection breaks during these calls, of which some find it broken.
        for _ in range(3):
            calls = [client.get(METADATA, str(number)) for number in range(10)]
            found = await asyncio.gather(*calls, return_exceptions=True)
            assert all(isinstance(each, UnavailableError) for each in found)
        relay.flowing.set()
        assert await client.wait_connected(10)
        assert relay.opened - opened <= 2
        assert failures == []
    finally:
        await client.close()
        server.close()
