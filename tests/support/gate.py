"""A TCP proxy that a test shuts and opens again."""

import asyncio
import contextlib
import threading
from asyncio import StreamReader, StreamWriter
from collections.abc import Coroutine
from typing import Any, Self

from ignite_server.ports import free_ports


class Gate:
    """A proxy from ``port`` to another port, within the ``with``, that can be opened and shut."""

    def __init__(self, to: int) -> None:
        [self.port] = free_ports(1)
        self._to = to
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._server: asyncio.Server | None = None

    def __enter__(self) -> Self:
        self._thread.start()
        self.open()
        return self

    def __exit__(self, *_: object) -> None:
        self.shut()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    def open(self) -> None:
        """Accept connections."""
        self._server = self._run(asyncio.start_server(self._serve, "127.0.0.1", self.port))

    def shut(self) -> None:
        """Break all connections, and accept no more connections."""
        self._run(self._end())

    def _run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(10)

    async def _end(self) -> None:
        if self._server is not None:
            self._server.close()
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _serve(self, reader: StreamReader, writer: StreamWriter) -> None:
        try:
            back, forth = await asyncio.open_connection("127.0.0.1", self._to)
        except OSError:
            writer.transport.abort()
            return
        try:
            await asyncio.gather(_pass(reader, forth), _pass(back, writer))
        finally:
            for end in (writer, forth):
                end.transport.abort()


async def _pass(reader: StreamReader, writer: StreamWriter) -> None:
    with contextlib.suppress(ConnectionError):
        while data := await reader.read(2**16):
            writer.write(data)
            await writer.drain()
    writer.close()
