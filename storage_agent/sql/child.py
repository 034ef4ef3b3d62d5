"""The query process: limits its own resources, and then computes one query after the other.

DuckDB's memory limit omits some memory (intermediate texts, for example), and some work of DuckDB
cannot be interrupted. Therefore the operating system limits the memory of the query process, and
the agent can kill the process.
"""

import os
import resource
import signal
import sys
from pathlib import Path
from typing import BinaryIO

import msgspec

from storage_agent.sql.engine import compute, connect
from storage_agent.sql.messages import (
    PREFIX,
    FromProcess,
    ProcessReady,
    SqlQuery,
    ToProcess,
    encode,
)

_MIB = 2**20
_MEMORY_FACTOR = 2
"""The memory limit of the process, as a multiple of DuckDB's memory limit."""

_MIN_UNCOUNTED_BYTES = 192 * _MIB
_GRACE_S = 2.0
_DECODER = msgspec.msgpack.Decoder(ToProcess)


class AgentChannel:
    """The pipes between this process and the agent."""

    def __init__(self, source: BinaryIO, sink: BinaryIO) -> None:
        self._source = source
        self._sink = sink

    def send(self, message: FromProcess, payload: bytes = b"") -> None:
        """Send a message and its payload to the agent."""
        self._sink.write(encode(message, payload))
        self._sink.flush()

    def receive(self) -> tuple[ToProcess, bytes]:
        """Return the agent's next message and its payload; exit the process when the input ends."""
        head, payload = PREFIX.unpack(self._read(PREFIX.size))
        return _DECODER.decode(self._read(head)), self._read(payload)

    def call(self, message: FromProcess) -> tuple[ToProcess, bytes]:
        """Send a message to the agent; return the reply and the payload of the reply."""
        self.send(message)
        return self.receive()

    def _read(self, size: int) -> bytes:
        data = self._source.read(size)
        if len(data) < size:
            os._exit(0)
        return data


def main() -> None:
    """Answer the agent's queries until standard input ends.

    The only command-line argument is DuckDB's memory limit in MiB.
    """
    memory_mb = int(sys.argv[1])
    channel = AgentChannel(sys.stdin.buffer, sys.stdout.buffer)
    with connect(memory_mb) as connection:  # load lazily loaded libraries now
        connection.execute("SELECT json_serialize_sql('SELECT 1'), now()").fetchall()
    _limit(memory_mb)
    channel.send(ProcessReady())
    while True:
        query, _ = channel.receive()
        if not isinstance(query, SqlQuery):
            raise TypeError(f"expected a query, got {query}")
        # The agent kills this process at its timeout; the timer is for when the agent has died.
        signal.setitimer(signal.ITIMER_REAL, query.seconds + _GRACE_S)
        message, payload = compute(query, memory_mb, channel.call)
        signal.setitimer(signal.ITIMER_REAL, 0)
        channel.send(message, payload)


def _limit(memory_mb: int) -> None:
    """Limit the address space of this process, forbid writing files, and lower the priority.

    If the machine runs out of memory, the kernel kills this process before other processes.
    """
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    added = max(_MEMORY_FACTOR * memory_mb * _MIB, memory_mb * _MIB + _MIN_UNCOUNTED_BYTES)
    limit = pages * resource.getpagesize() + added
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    Path("/proc/self/oom_score_adj").write_text("1000")
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    os.nice(5)


if __name__ == "__main__":
    main()
