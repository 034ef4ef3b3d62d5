from collections.abc import AsyncIterator

import pytest

from mistbow.ignite.server import IgniteServer
from storage_agent.ignite_client import IgniteClient
from tests.storage_agent.conftest import HeldClock
from tests.storage_agent.streams.opening import Opener


@pytest.fixture
async def opener(ignite: IgniteServer, clock: HeldClock) -> AsyncIterator[Opener]:
    client = IgniteClient([("127.0.0.1", ignite.port)])
    client.start()
    assert await client.wait_connected(20)
    opener = Opener(client, clock)
    yield opener
    for stream in opener.opened:
        await stream.writer.close()
    await client.close()
