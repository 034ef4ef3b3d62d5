"""A process of queries, as the agent sees it: started, asked, fed with tables, ended."""

import asyncio
import contextlib
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Self

import msgspec
import pyarrow as pa

from mistbow.errors import UnavailableError
from storage_agent.sql.tables import Table
from storage_agent.sql.wire import (
    PREFIX,
    Answer,
    Batch,
    Describe,
    End,
    Failed,
    FromProcess,
    Known,
    Next,
    Query,
    Ready,
    Scan,
    ToProcess,
    Unknown,
    encode,
    encode_batch,
)

FindTable = Callable[[str], Awaitable[Table | None]]

_START_S = 60.0
_MOST_BESIDE = 2**20
"""Most bytes of a message beside an answer's."""

_PASSED_ON = ("PATH", "PYTHONPATH", "LD_LIBRARY_PATH")
"""Of the environment: no settings, for among them is a token."""

_DECODER = msgspec.msgpack.Decoder(FromProcess)


class DiedError(Exception):
    """The process ended by itself, in the middle of a query."""


class QueryProcess:
    """One process; it computes one query at a time."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    @classmethod
    async def start(cls, memory_mb: int) -> Self:
        """Start a process; raises ``UnavailableError`` if it does not get ready."""
        kept = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "storage_agent.sql.child",
            str(memory_mb),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            env={**kept, "TZ": "UTC"},
        )
        started = cls(process)
        try:
            async with asyncio.timeout(_START_S):
                message, _ = await started._receive(0)
        except (DiedError, TimeoutError) as error:
            await started.end()
            raise UnavailableError("the process of a query does not start") from error
        except BaseException:
            started.kill()
            raise
        if not isinstance(message, Ready):
            raise TypeError(f"the process began with {message}")
        return started

    async def run(self, query: Query, find: FindTable) -> tuple[Answer | Failed, bytes]:
        """Compute a query over the tables that ``find`` finds; raises ``DiedError``."""
        scans: dict[int, AsyncIterator[pa.RecordBatch]] = {}
        tables: dict[str, Table] = {}
        try:
            await self._send(query)
            while True:
                asked, payload = await self._receive(query.most_bytes)
                match asked:
                    case Answer() | Failed():
                        return asked, payload
                    case Describe(name):
                        table = await find(name)
                        if table is None:
                            await self._send(Unknown())
                        else:
                            tables[name] = table
                            schema = table.schema.serialize().to_pybytes()
                            await self._send(Known(table.words()), schema)
                    case Scan():
                        scans[asked.number] = tables[asked.table].batches(asked)
                        await self._send_rows(scans, asked.number)
                    case Next(number):
                        await self._send_rows(scans, number)
        finally:
            for rows in scans.values():
                await _close(rows)

    def kill(self) -> None:
        """End the process at once, without waiting for it."""
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()

    async def end(self) -> None:
        """End the process at once, and wait until it has."""
        self.kill()
        await self._process.wait()

    async def _send_rows(
        self, scans: dict[int, AsyncIterator[pa.RecordBatch]], number: int
    ) -> None:
        async for rows in scans[number]:
            if rows.num_rows:
                await self._send(Batch(), encode_batch(rows))
                return
        del scans[number]
        await self._send(End())

    async def _send(self, message: ToProcess, payload: bytes = b"") -> None:
        assert self._process.stdin is not None  # noqa: S101 - it was started with a pipe
        self._process.stdin.write(encode(message, payload))
        try:
            await self._process.stdin.drain()
        except ConnectionError as error:
            raise DiedError from error

    async def _receive(self, most: int) -> tuple[FromProcess, bytes]:
        assert self._process.stdout is not None  # noqa: S101 - it was started with a pipe
        read = self._process.stdout.readexactly
        try:
            head, payload = PREFIX.unpack(await read(PREFIX.size))
            if head + payload > most + _MOST_BESIDE:
                raise DiedError
            return _DECODER.decode(await read(head)), await read(payload)
        except (asyncio.IncompleteReadError, msgspec.MsgspecError) as error:
            raise DiedError from error


async def _close(rows: AsyncIterator[pa.RecordBatch]) -> None:
    closing = getattr(rows, "aclose", None)
    if closing is not None:
        await closing()
