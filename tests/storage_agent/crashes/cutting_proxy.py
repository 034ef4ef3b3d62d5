"""A proxy that forwards every request to an agent, and cuts off most of the answers."""

import asyncio
import random
import re
from asyncio import StreamReader, StreamWriter
from contextlib import ExitStack
from typing import Self
from urllib.parse import urlsplit

from tests.support.tcp_server import tcp_server

_LENGTH = re.compile(rb"content-length: *(\d+)", re.IGNORECASE)
_WAYS = ("whole", "before it comes", "when it comes", "in its middle")


class CuttingProxy:
    """Forwards requests to ``upstream`` inside the ``with``.

    ``cuts``: the number of cut-off answers.
    """

    def __init__(self, upstream: str) -> None:
        self.cuts = 0
        self.url = ""
        self._upstream = urlsplit(upstream)
        self._chance = random.Random()  # noqa: S311 - any way will do
        self._listening = ExitStack()

    def __enter__(self) -> Self:
        port = self._listening.enter_context(tcp_server(self._serve))
        self.url = f"http://127.0.0.1:{port}"
        return self

    def __exit__(self, *_: object) -> None:
        self._listening.close()

    async def _serve(self, sender: StreamReader, answers: StreamWriter) -> None:
        host, port = self._upstream.hostname, self._upstream.port
        agent, requests = await asyncio.open_connection(host, port)
        try:
            while await self._pass_on(sender, requests, agent, answers):
                pass
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # one of the two has gone
        finally:
            # The agent gets all that was written; the sender may lose even that.
            requests.close()
            answers.transport.abort()

    async def _pass_on(
        self,
        sender: StreamReader,
        requests: StreamWriter,
        agent: StreamReader,
        answers: StreamWriter,
    ) -> bool:
        """Forward one request, and all or a part of its answer.

        Returns whether the whole answer was forwarded.
        """
        requests.write(await _message(sender))
        await requests.drain()
        way = self._chance.choice(_WAYS)
        if way != "before it comes":
            answer = await _message(agent)
            forwarded = {"whole": len(answer), "in its middle": len(answer) // 2}.get(way, 0)
            answers.write(answer[:forwarded])
            await answers.drain()
        self.cuts += way != "whole"
        return way == "whole"


async def _message(reader: StreamReader) -> bytes:
    """Read one HTTP request or answer from a connection; return its bytes, head and body."""
    head = await reader.readuntil(b"\r\n\r\n")
    length = _LENGTH.search(head)
    return head + await reader.readexactly(int(length[1]) if length else 0)
