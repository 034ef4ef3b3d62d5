"""A link that can become slow: passes on whatever comes, both ways, so much later."""

import asyncio
import contextlib
import threading
from asyncio import StreamReader, StreamWriter
from typing import Self

_PART = 2**16


class SlowLink:
    """Leads from a free port to another inside the ``with``; ``delay_s`` is that of one way."""

    def __init__(self, port: int) -> None:
        self.delay_s = 0.0
        self.url = ""
        self._port = port
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        listening = asyncio.start_server(self._serve, "127.0.0.1", 0)
        server = asyncio.run_coroutine_threadsafe(listening, self._loop).result(10)
        self.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    async def _end(self) -> None:
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

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
