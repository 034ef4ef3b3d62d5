from collections.abc import AsyncIterator

import pytest

from ignite_server.server import IgniteServer
from storage_agent.ignite.client import IgniteClient
from storage_agent.streams.streams import Streams
from tests.storage_agent.conftest import ManualClock


@pytest.fixture
async def streams(ignite: IgniteServer, clock: ManualClock) -> AsyncIterator[Streams]:
    client = IgniteClient([("127.0.0.1", ignite.port)])
    client.start()
    assert await client.wait_connected(20)
    streams = Streams(client, clock, 1000)
    yield streams
    await streams.close()
    await client.close()
