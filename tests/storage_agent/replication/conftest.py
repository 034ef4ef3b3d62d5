from collections.abc import AsyncIterator

import pytest

from mistbow.ignite.server import IgniteServer
from storage_agent.ignite_client import IgniteClient
from storage_agent.streams.streams import Streams
from tests.storage_agent.conftest import HeldClock


@pytest.fixture
async def streams(ignite: IgniteServer, clock: HeldClock) -> AsyncIterator[Streams]:
    client = IgniteClient([("127.0.0.1", ignite.port)])
    client.start()
    assert await client.wait_connected(20)
    streams = Streams(client, clock, 1000, lambda _: None)
    yield streams
    await streams.close()
    await client.close()
