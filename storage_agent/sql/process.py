"""The agent's side of a query process: its start, the exchange of queries and rows, its end."""

import asyncio
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Self

import msgspec
import pyarrow as pa

from mistbow.errors import UnavailableError
from mistbow.runtime.environment import inherited_environment
from storage_agent.sql.messages import (
    PREFIX,
    AnswerFollows,
    BatchFollows,
    DescribeTable,
    EndOfScan,
    FromProcess,
    NextBatch,
    ProcessReady,
    QueryFailed,
    Scan,
    SqlQuery,
    TableDescription,
    ToProcess,
    UnknownTable,
    encode,
    encode_batch,
)
from storage_agent.sql.tables import Table

FindTable = Callable[[str], Awaitable[Table | None]]

_START_TIMEOUT_S = 60.0
_MAX_HEAD_BYTES = 2**20
"""The maximum size of a message without the payload."""

_ENVIRONMENT = ("PATH", "PYTHONPATH", "LD_LIBRARY_PATH")
"""The environment variables that the query process inherits.

Settings of the agent are not inherited, because some settings are secret.
"""

_DECODER = msgspec.msgpack.Decoder(FromProcess)


class ProcessDiedError(Exception):
    """Raised if the query process ended during a query."""


class QueryProcess:
    """A child process that computes one query at a time."""

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        self._process = process
        self._reader = reader
        self._writer = writer
        self._ending: asyncio.Task[int] | None = None

    @classmethod
    async def start(cls, memory_mb: int) -> Self:
        """Start a query process, and wait until the process is ready.

        ``memory_mb``: DuckDB's memory limit in MiB. Raises ``UnavailableError`` if the process does
        not become ready.
        """
        process, connection = _spawn(memory_mb)
        reader, writer = await asyncio.open_connection(sock=connection)
        started = cls(process, reader, writer)
        try:
            async with asyncio.timeout(_START_TIMEOUT_S):
                message, _ = await started._receive(0)
        except (ProcessDiedError, TimeoutError) as error:
            await started.end()
            raise UnavailableError("the process of SQL queries does not start") from error
        except BaseException:
            started.kill()
            raise
        if not isinstance(message, ProcessReady):
            raise TypeError(f"the SQL process sent {message} before it reported that it is ready")
        return started

    async def run(
        self, query: SqlQuery, find: FindTable
    ) -> tuple[AnswerFollows | QueryFailed, bytes]:
        """Run a query; return the answer or the failure, with the payload.

        ``find``: returns the table with a name, or None. Raises ``ProcessDiedError`` if the process
        ends during the query.
        """
        scans: dict[int, AsyncIterator[pa.RecordBatch]] = {}
        tables: dict[str, Table] = {}
        try:
            await self._send(query)
            while True:
                message, payload = await self._receive(query.max_bytes)
                match message:
                    case AnswerFollows() | QueryFailed():
                        return message, payload
                    case DescribeTable(name):
                        table = await find(name)
                        if table is None:
                            await self._send(UnknownTable())
                        else:
                            tables[name] = table
                            schema = table.schema.serialize().to_pybytes()
                            values = await table.column_values()
                            await self._send(TableDescription(values), schema)
                    case Scan():
                        scans[message.number] = tables[message.table].batches(message)
                        await self._send_rows(scans, message.number)
                    case NextBatch(number):
                        await self._send_rows(scans, number)
        finally:
            for rows in scans.values():
                await _close(rows)

    def kill(self) -> None:
        """Kill the process, without waiting for its end."""
        if self._ending is None:
            self._process.kill()
            self._writer.close()
            self._ending = asyncio.create_task(asyncio.to_thread(self._process.wait))

    async def end(self) -> None:
        """Kill the process, and wait for its end."""
        self.kill()
        if self._ending is not None:
            await self._ending

    async def _send_rows(
        self, scans: dict[int, AsyncIterator[pa.RecordBatch]], number: int
    ) -> None:
        async for rows in scans[number]:
            if rows.num_rows:
                await self._send(BatchFollows(), encode_batch(rows))
                return
        del scans[number]
        await self._send(EndOfScan())

    async def _send(self, message: ToProcess, payload: bytes = b"") -> None:
        self._writer.write(encode(message, payload))
        try:
            await self._writer.drain()
        except ConnectionError as error:
            raise ProcessDiedError from error

    async def _receive(self, max_payload: int) -> tuple[FromProcess, bytes]:
        read = self._reader.readexactly
        try:
            head, payload = PREFIX.unpack(await read(PREFIX.size))
            if head + payload > max_payload + _MAX_HEAD_BYTES:
                raise ProcessDiedError
            return _DECODER.decode(await read(head)), await read(payload)
        except (asyncio.IncompleteReadError, ConnectionError, msgspec.MsgspecError) as error:
            raise ProcessDiedError from error


def _spawn(memory_mb: int) -> tuple[subprocess.Popen[bytes], socket.socket]:
    """Start a query process; return it, and the socket that is its standard input and output.

    ``asyncio.create_subprocess_exec`` would copy the page tables of the agent. This stops the event
    loop for 35 ms if the agent has 600 MB; ``Popen`` takes 1 ms.
    """
    own, other = socket.socketpair()
    with other:
        process = subprocess.Popen(
            [sys.executable, "-m", "storage_agent.sql.child", str(memory_mb)],
            stdin=other.fileno(),
            stdout=other.fileno(),
            env={**inherited_environment(_ENVIRONMENT), "TZ": "UTC"},
        )
    return process, own


async def _close(rows: AsyncIterator[pa.RecordBatch]) -> None:
    closing = getattr(rows, "aclose", None)
    if closing is not None:
        await closing()
