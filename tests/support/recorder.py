"""A TCP server that records what clients send, and passes it on to another port or answers 404."""

import asyncio
import contextlib
import re
from asyncio import StreamReader, StreamWriter
from contextlib import ExitStack
from typing import Self

from tests.support.tcp_server import tcp_server

_PART = 2**16
_REQUEST = re.compile(rb"(?:GET|POST|PUT|PATCH|DELETE) \S+ HTTP/1.1")
_NOT_FOUND = b"HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\n{}"


class Recorder:
    """Records what clients send to a free port within the ``with``.

    ``to``: the port that everything is passed on to; None: each request is answered 404.
    """

    def __init__(self, to: int | None = None) -> None:
        self.received = bytearray()
        self.connections: list[bytearray] = []
        """What was received, by connection."""
        self.url = ""
        self._to = to
        self._listening = ExitStack()

    def __enter__(self) -> Self:
        port = self._listening.enter_context(tcp_server(self._serve))
        self.url = f"http://127.0.0.1:{port}"
        return self

    def __exit__(self, *_: object) -> None:
        self._listening.close()

    def requests(self) -> list[bytes]:
        """Return the request lines that were received, in the order of connections."""
        return [
            line for connection in self.connections for line in _REQUEST.findall(bytes(connection))
        ]

    async def _serve(self, near: StreamReader, answers: StreamWriter) -> None:
        connection = bytearray()
        self.connections.append(connection)
        # The end of the test cancels connections; asyncio would log an error for each of them.
        with contextlib.suppress(ConnectionError, asyncio.CancelledError):
            if self._to is None:
                while await self._read(near, connection):
                    answers.write(_NOT_FOUND)
            else:
                far, requests = await asyncio.open_connection("127.0.0.1", self._to)
                await asyncio.gather(self._pass_on(near, requests, connection), _copy(far, answers))
        answers.close()

    async def _read(self, near: StreamReader, connection: bytearray) -> bytes:
        part = await near.read(_PART)
        self.received += part
        connection += part
        return part

    async def _pass_on(
        self, near: StreamReader, writer: StreamWriter, connection: bytearray
    ) -> None:
        try:
            while part := await self._read(near, connection):
                writer.write(part)
                await writer.drain()
        finally:
            writer.close()


async def _copy(reader: StreamReader, writer: StreamWriter) -> None:
    try:
        while part := await reader.read(_PART):
            writer.write(part)
            await writer.drain()
    finally:
        writer.close()
