"""Concurrent clients that send operations to the nodes of a store, and measure their times."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

import uvloop

from benchmarks.storage.http_clients import RequestTimes
from mistbow.runtime.collection import full_collections_paused

Address = tuple[str, int]
ReadReply = Callable[[asyncio.StreamReader], Awaitable[int]]
"""A function that reads a reply, and returns the length of the content (bytes)."""

_Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@dataclass(frozen=True, slots=True)
class NodeRequest:
    """A request to a node, by its number; ``least``: the least length of the reply's content."""

    node: int
    data: bytes
    least: int = 0


ClientOperation = Sequence[NodeRequest]
"""The requests of an operation, which are sent one after the other."""


def run_operations(
    addresses: Sequence[Address],
    operations: Sequence[Sequence[ClientOperation]],
    read_reply: ReadReply,
) -> RequestTimes:
    """Send the operations of each client, to the addresses of the nodes; return the times.

    A client has a connection to each node, and sends an operation when the previous operation is
    answered. Raises ``AssertionError`` if a reply is an error or too short.
    """
    with full_collections_paused():
        return uvloop.run(_run(addresses, operations, read_reply))


async def _run(
    addresses: Sequence[Address],
    operations: Sequence[Sequence[ClientOperation]],
    read_reply: ReadReply,
) -> RequestTimes:
    connections = [
        await asyncio.gather(*(asyncio.open_connection(*each) for each in addresses))
        for _ in operations
    ]
    try:
        began = time.perf_counter()
        durations = await asyncio.gather(
            *(
                _client(own, each, read_reply)
                for own, each in zip(connections, operations, strict=True)
            )
        )
        seconds = time.perf_counter() - began
    finally:
        for own in connections:
            for _, writer in own:
                writer.close()
    return RequestTimes([one for each in durations for one in each], seconds)


async def _client(
    connections: Sequence[_Connection], operations: Sequence[ClientOperation], read_reply: ReadReply
) -> list[float]:
    durations = []
    for operation in operations:
        began = time.perf_counter()
        for request in operation:
            reader, writer = connections[request.node]
            writer.write(request.data)
            length = await read_reply(reader)
            assert length >= request.least, f"a reply of {length} bytes lacks its record"
        durations.append(time.perf_counter() - began)
    return durations
