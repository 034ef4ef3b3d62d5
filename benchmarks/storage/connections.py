"""Clients that ask as fast as they are answered, each on one connection of its own.

They take as little of the machine as may be, for it is shared with what they measure: requests
are made beforehand, and of an answer only the length and the status are read.
"""

import asyncio
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

Request = Callable[[int, int], bytes]
"""The request that a client (first number) sends as its nth (second number)."""


@dataclass(frozen=True)
class Answered:
    """How long each request took, in seconds, and all of them together."""

    took: Sequence[float]
    seconds: float

    @property
    def rate(self) -> float:
        """Requests per second of all clients together."""
        return len(self.took) / self.seconds

    def milliseconds(self, share: float) -> float:
        """Return how long that share of the requests took at most.

        >>> Answered([0.001, 0.002, 0.003], 1.0).milliseconds(0.5)
        2.0
        """
        return sorted(self.took)[int(share * len(self.took))] * 1000


def post(url: str, path: str, body: object) -> bytes:
    """Return a whole request."""
    data = json.dumps(body).encode()
    head = (
        f"POST {path} HTTP/1.1\r\nHost: {urlsplit(url).netloc}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(data)}\r\n\r\n"
    )
    return head.encode() + data


def ask(
    url: str, request: Request, *, clients: int, seconds: float = 0.0, each: int = 0
) -> Answered:
    """Ask for some time, or so many times ``each``; raises if an answer is not a success."""
    return asyncio.run(_ask(url, request, clients, seconds, each))


def answer(url: str, request: bytes) -> Any:
    """Return the JSON that a request is answered with: a fast answer has to be a right one."""

    async def one() -> bytes:
        address = urlsplit(url)
        reader, writer = await asyncio.open_connection(address.hostname, address.port, limit=2**24)
        try:
            writer.write(request)
            return await _answer(reader)
        finally:
            writer.close()

    return json.loads(asyncio.run(one()))


async def _ask(url: str, request: Request, clients: int, seconds: float, each: int) -> Answered:
    began = time.perf_counter()
    end = began + seconds

    def goes_on(number: int) -> bool:
        return number < each if each else time.perf_counter() < end

    found = await asyncio.gather(*(_one(url, request, c, goes_on) for c in range(clients)))
    return Answered([took for some in found for took in some], time.perf_counter() - began)


async def _one(
    url: str, request: Request, client: int, goes_on: Callable[[int], bool]
) -> list[float]:
    address = urlsplit(url)
    reader, writer = await asyncio.open_connection(address.hostname, address.port, limit=2**24)
    took: list[float] = []
    try:
        while goes_on(len(took)):
            data = request(client, len(took))
            sent = time.perf_counter()
            writer.write(data)
            await _answer(reader)
            took.append(time.perf_counter() - sent)
    finally:
        writer.close()
    return took


async def _answer(reader: asyncio.StreamReader) -> bytes:
    head = (await reader.readuntil(b"\r\n\r\n")).lower()
    if not head.startswith(b"http/1.1 200"):
        raise AssertionError(head.decode())
    length = int(head.split(b"content-length:")[1].split(b"\r\n")[0])
    return await reader.readexactly(length)
