"""A TCP server in a thread of the test, on a free port."""

import asyncio
import threading
from asyncio import StreamReader, StreamWriter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager

Serve = Callable[[StreamReader, StreamWriter], Awaitable[None]]


@contextmanager
def tcp_server(serve: Serve) -> Iterator[int]:
    """Serve connections by ``serve`` within the ``with``; yield the port."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    try:
        starting = asyncio.start_server(serve, "127.0.0.1", 0)
        server = asyncio.run_coroutine_threadsafe(starting, loop).result(10)
        yield server.sockets[0].getsockname()[1]
        asyncio.run_coroutine_threadsafe(_end(), loop).result(10)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        loop.close()


async def _end() -> None:
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
