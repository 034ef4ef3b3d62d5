"""Answers of a stolen service that arrive byte by byte, without an end."""

import asyncio
from collections.abc import AsyncIterator

import httpx


class Trickle(httpx.AsyncByteStream):
    """A body of ``part`` every ``interval_s`` seconds; ``count``: the number of parts."""

    def __init__(self, part: bytes = b"\x01", interval_s: float = 0.1, count: int = 10_000) -> None:
        self._part = part
        self._interval_s = interval_s
        self._count = count

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for _ in range(self._count):
            await asyncio.sleep(self._interval_s)
            yield self._part
