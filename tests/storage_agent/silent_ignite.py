"""A client of a real Ignite that loses the answers to its writes."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Self

from ignite_server.server import IgniteServer
from mistbow.errors import UnavailableError
from storage_agent.ignite.client import IgniteClient


class SilentIgnite(IgniteClient):
    """A client that gets no answers to its writes while ``is_silent``.

    ``arrives``: whether such a write arrives at once, or in ``deliver``.
    """

    is_silent = False
    arrives = True

    def __init__(self, addresses: list[tuple[str, int]]) -> None:
        super().__init__(addresses)
        self._late: list[Callable[[], Awaitable[bool]]] = []

    @classmethod
    @asynccontextmanager
    async def connected_to(cls, ignite: IgniteServer) -> AsyncIterator[Self]:
        """Connect a client to a server for the time of the block."""
        client = cls([("127.0.0.1", ignite.port)])
        client.start()
        assert await client.wait_connected(20)
        yield client
        await client.close()

    async def deliver(self) -> None:
        """Make the writes that have not arrived yet."""
        for write in self._late:
            await write()

    async def put_if_absent(self, cache: str, key: str, value: bytes | str) -> bool:
        return await self._send(partial(super().put_if_absent, cache, key, value))

    async def replace(self, cache: str, key: str, old: str, new: str) -> bool:
        return await self._send(partial(super().replace, cache, key, old, new))

    async def _send(self, write: Callable[[], Awaitable[bool]]) -> bool:
        if not self.is_silent:
            return await write()
        if self.arrives:
            await write()
        else:
            self._late.append(write)
        raise UnavailableError("Ignite has not answered in time")
