"""The link between an agent and Ignite, which fails at a write that a test chooses."""

import asyncio
import struct
from asyncio import StreamReader, StreamWriter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

from pyignite.queries import op_codes

_LENGTH = struct.Struct("<i")
_REQUEST = struct.Struct("<hq")
_ANSWER = struct.Struct("<q")
_WRITES = {
    op_codes.OP_CACHE_PUT,
    op_codes.OP_CACHE_PUT_ALL,
    op_codes.OP_CACHE_PUT_IF_ABSENT,
    op_codes.OP_CACHE_REPLACE_IF_EQUALS,
    op_codes.OP_CACHE_REMOVE_KEYS,
}


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault at a write to Ignite.

    ``writes``: the number of writes that succeed before the fault. ``lands``: whether Ignite stores
    the faulty write, so that only the answer is lost.
    """

    writes: int
    lands: bool


class FailingLink:
    """A proxy between an agent and Ignite.

    At a fault, the proxy breaks all connections, and calls ``on_fault``.
    """

    def __init__(self, ignite_port: int) -> None:
        self.port = 0
        self._ignite_port = ignite_port
        self._server: asyncio.Server | None = None
        self._serving: set[asyncio.Task[None]] = set()
        self._open: set[StreamWriter] = set()
        self._fault: Fault | None = None
        self._left = 0
        self._on_fault: Callable[[], None] = lambda: None

    async def start(self) -> Self:
        """Listen on a free port, which becomes ``port``; return the link."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    def fail(self, fault: Fault, on_fault: Callable[[], None]) -> None:
        """Schedule a fault after ``fault.writes`` more writes; the fault calls ``on_fault``."""
        self._fault, self._left, self._on_fault = fault, fault.writes, on_fault

    def heal(self) -> None:
        """Cancel a fault that has not occurred yet."""
        self._fault = None

    def end(self) -> None:
        """Break all connections, and accept no new connections."""
        self._fault = None
        if self._server is not None:
            self._server.close()
        self._break()

    async def wait_ended(self) -> None:
        """Wait until all connections are closed, after a call of ``end``."""
        if self._serving:
            await asyncio.wait(self._serving)

    async def _serve(self, agent: StreamReader, to_agent: StreamWriter) -> None:
        if (task := asyncio.current_task()) is not None:
            self._serving.add(task)
            task.add_done_callback(self._serving.discard)
        self._open.add(to_agent)
        try:
            ignite, to_ignite = await asyncio.open_connection("127.0.0.1", self._ignite_port)
        except OSError:
            to_agent.transport.abort()
            return
        self._open.add(to_ignite)
        unanswered: set[int] = set()
        requests = self._pass_requests(agent, to_ignite, unanswered)
        answers = self._pass_answers(ignite, to_agent, unanswered)
        try:
            async with asyncio.TaskGroup() as both:
                both.create_task(requests)
                both.create_task(answers)
        except* (asyncio.IncompleteReadError, ConnectionError):
            pass  # one of the two has gone
        finally:
            for writer in (to_agent, to_ignite):
                writer.transport.abort()
                self._open.discard(writer)

    async def _pass_requests(
        self, agent: StreamReader, ignite: StreamWriter, unanswered: set[int]
    ) -> None:
        ignite.write(await _message(agent))  # the handshake
        while True:
            message = await _message(agent)
            operation, number = _REQUEST.unpack_from(message, _LENGTH.size)
            if operation in _WRITES and self._is_due():
                if not self._lands():
                    self._come_true()
                    return
                unanswered.add(number)
            ignite.write(message)

    async def _pass_answers(
        self, ignite: StreamReader, agent: StreamWriter, unanswered: set[int]
    ) -> None:
        agent.write(await _message(ignite))
        while True:
            message = await _message(ignite)
            if _ANSWER.unpack_from(message, _LENGTH.size)[0] in unanswered:
                self._come_true()
                return
            agent.write(message)

    def _is_due(self) -> bool:
        self._left -= 1
        return self._fault is not None and self._left == -1

    def _lands(self) -> bool:
        return self._fault is not None and self._fault.lands

    def _come_true(self) -> None:
        self._fault = None
        self._break()
        self._on_fault()

    def _break(self) -> None:
        for writer in self._open:
            writer.transport.abort()


async def _message(reader: StreamReader) -> bytes:
    head = await reader.readexactly(_LENGTH.size)
    return head + await reader.readexactly(_LENGTH.unpack(head)[0])
