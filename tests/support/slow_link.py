"""A TCP proxy that delays both directions."""

import asyncio
import contextlib
from asyncio import StreamReader, StreamWriter
from contextlib import ExitStack
from typing import Self

from tests.support.tcp_server import tcp_server

_PART = 2**16


class SlowLink:
    """Forwards a free port to ``port`` within the ``with``.

    ``delay_s``: the delay per direction.
    """

    def __init__(self, port: int) -> None:
        self.delay_s = 0.0
        self.url = ""
        self._port = port
        self._listening = ExitStack()

    def __enter__(self) -> Self:
        port = self._listening.enter_context(tcp_server(self._serve))
        self.url = f"http://127.0.0.1:{port}"
        return self

    def __exit__(self, *_: object) -> None:
        self._listening.close()

    async def _serve(self, near: StreamReader, answers: StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            far, requests = await asyncio.open_connection("127.0.0.1", self._port)
            await asyncio.gather(self._pass_on(near, requests), self._pass_on(far, answers))

    async def _pass_on(self, reader: StreamReader, writer: StreamWriter) -> None:
        try:
            while part := await reader.read(_PART):
                await asyncio.sleep(self.delay_s)
                writer.write(part)
                await writer.drain()
        finally:
            writer.close()
