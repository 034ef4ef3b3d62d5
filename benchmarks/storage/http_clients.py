"""HTTP clients, each with a separate connection.

A client sends a request when the previous request is answered. The clients share the machine with
the measured server, so they use little CPU: requests are built beforehand, and only the length and
the status of a response are parsed.
"""

import asyncio
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

Request = Callable[[int, int], bytes]
"""A function that returns the request that a client sends: (client, number of the request)."""


@dataclass(frozen=True)
class RequestTimes:
    """The durations of all requests, and the duration of the complete run, in seconds."""

    durations: Sequence[float]
    seconds: float

    @property
    def rate(self) -> float:
        """The number of requests per second that all clients together complete."""
        return len(self.durations) / self.seconds

    def milliseconds(self, share: float) -> float:
        """Return the quantile ``share`` (0 to 1) of the durations, in ms.

        >>> RequestTimes([0.001, 0.002, 0.003], 1.0).milliseconds(0.5)
        2.0
        """
        return sorted(self.durations)[int(share * len(self.durations))] * 1000


def post(url: str, path: str, body: object, token: str = "") -> bytes:
    """Return the bytes of a POST request with a JSON body; ``token``: empty: without a token."""
    data = json.dumps(body).encode()
    authorization = f"Authorization: Bearer {token}\r\n" if token else ""
    head = (
        f"POST {path} HTTP/1.1\r\nHost: {urlsplit(url).netloc}\r\n{authorization}"
        f"Content-Type: application/json\r\nContent-Length: {len(data)}\r\n\r\n"
    )
    return head.encode() + data


def run_clients(
    url: str, request: Request, *, clients: int, seconds: float = 0.0, each: int = 0
) -> RequestTimes:
    """Send requests for ``seconds``, or ``each`` requests per client; return the durations.

    Raises ``AssertionError`` if the status of a response is not 200.
    """
    return asyncio.run(_run_clients(url, request, clients, seconds, each))


def fetch_json(url: str, request: bytes) -> Any:
    """Send a request; return the JSON body of the response."""

    async def one() -> bytes:
        address = urlsplit(url)
        reader, writer = await asyncio.open_connection(address.hostname, address.port, limit=2**24)
        try:
            writer.write(request)
            return await read_body(reader)
        finally:
            writer.close()

    return json.loads(asyncio.run(one()))


async def _run_clients(
    url: str, request: Request, clients: int, seconds: float, each: int
) -> RequestTimes:
    began = time.perf_counter()
    end = began + seconds

    def continues(number: int) -> bool:
        return number < each if each else time.perf_counter() < end

    results = await asyncio.gather(
        *(_run_client(url, request, c, continues) for c in range(clients))
    )
    return RequestTimes(
        [one for durations in results for one in durations], time.perf_counter() - began
    )


async def _run_client(
    url: str, request: Request, client: int, continues: Callable[[int], bool]
) -> list[float]:
    address = urlsplit(url)
    reader, writer = await asyncio.open_connection(address.hostname, address.port, limit=2**24)
    durations: list[float] = []
    try:
        while continues(len(durations)):
            data = request(client, len(durations))
            sent = time.perf_counter()
            writer.write(data)
            await read_body(reader)
            durations.append(time.perf_counter() - sent)
    finally:
        writer.close()
    return durations


async def read_body(reader: asyncio.StreamReader) -> bytes:
    """Read a response; return its body. Raises ``AssertionError`` if the status is not 200."""
    head = (await reader.readuntil(b"\r\n\r\n")).lower()
    if not head.startswith(b"http/1.1 200"):
        raise AssertionError(head.decode())
    length = int(head.split(b"content-length:")[1].split(b"\r\n")[0])
    return await reader.readexactly(length)
