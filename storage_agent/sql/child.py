"""The process of queries: it limits itself, then answers one query after the other.

What DuckDB counts as memory is not all that it takes (texts as they are made are not), and some of
what it does cannot be interrupted. So the bounds are the operating system's, and hold for a process
that the agent can do without.
"""

import os
import resource
import signal
import sys
from pathlib import Path
from typing import BinaryIO

import msgspec

from storage_agent.sql.engine import answer, connect
from storage_agent.sql.wire import (
    PREFIX,
    FromProcess,
    Query,
    Ready,
    ToProcess,
    encode,
)

_MIB = 2**20
_BESIDE = 2
"""What it may take in all, in times of what DuckDB may count."""

_LEAST_BESIDE = 192 * _MIB
_GRACE_S = 2.0
_DECODER = msgspec.msgpack.Decoder(ToProcess)


class Channel:
    """The agent at the other end of the pipes."""

    def __init__(self, source: BinaryIO, sink: BinaryIO) -> None:
        self._source = source
        self._sink = sink

    def send(self, message: FromProcess, payload: bytes = b"") -> None:
        """Send a message."""
        self._sink.write(encode(message, payload))
        self._sink.flush()

    def receive(self) -> tuple[ToProcess, bytes]:
        """Return the next message; ends this process when the agent is gone."""
        head, payload = PREFIX.unpack(self._read(PREFIX.size))
        return _DECODER.decode(self._read(head)), self._read(payload)

    def ask(self, message: FromProcess) -> tuple[ToProcess, bytes]:
        """Send a message, and return the answer."""
        self.send(message)
        return self.receive()

    def _read(self, size: int) -> bytes:
        data = self._source.read(size)
        if len(data) < size:
            os._exit(0)
        return data


def main() -> None:
    """Answer queries until standard input ends; the argument is DuckDB's memory in MiB."""
    memory_mb = int(sys.argv[1])
    channel = Channel(sys.stdin.buffer, sys.stdout.buffer)
    with connect(memory_mb) as connection:  # all that is loaded late is loaded now
        connection.execute("SELECT json_serialize_sql('SELECT 1'), now()").fetchall()
    _limit(memory_mb)
    channel.send(Ready())
    while True:
        query, _ = channel.receive()
        if not isinstance(query, Query):
            raise TypeError(f"a query was expected, not {query}")
        # The agent ends this process when time is up; this is for when the agent is gone.
        signal.setitimer(signal.ITIMER_REAL, query.seconds + _GRACE_S)
        message, payload = answer(query, memory_mb, channel.ask)
        signal.setitimer(signal.ITIMER_REAL, 0)
        channel.send(message, payload)


def _limit(memory_mb: int) -> None:
    """Have the system hold what a query may take: memory, no files, and no more than is left."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    beside = max(_BESIDE * memory_mb * _MIB, memory_mb * _MIB + _LEAST_BESIDE)
    most = pages * resource.getpagesize() + beside
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    Path("/proc/self/oom_score_adj").write_text("1000")
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    os.nice(5)


if __name__ == "__main__":
    main()
