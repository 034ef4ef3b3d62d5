from collections.abc import AsyncIterator

import pytest

from ignite_server.server import IgniteServer
from storage_agent.ignite.client import IgniteClient
from tests.storage_agent.conftest import ManualClock
from tests.storage_agent.streams.opener import Opener


@pytest.fixture
async def opener(ignite: IgniteServer, clock: ManualClock) -> AsyncIterator[Opener]:
    client = IgniteClient([("127.0.0.1", ignite.port)])
    client.start()
    assert await client.wait_connected(20)
    opener = Opener(client, clock)
    yield opener
    for stream in opener.opened:
        await stream.writer.close()
    await client.close()
