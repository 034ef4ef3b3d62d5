"""The subset of the Redis protocol that clients need to send commands and count replies."""

import asyncio
import socket
import time
from collections.abc import Sequence


def command(*words: str) -> bytes:
    """Return the bytes that encode a command and the command's arguments.

    >>> command("GET", "a")
    b'*2\\r\\n$3\\r\\nGET\\r\\n$1\\r\\na\\r\\n'
    """
    parts = [f"*{len(words)}\r\n".encode()]
    for word in words:
        data = word.encode()
        parts += [b"$%d\r\n" % len(data), data, b"\r\n"]
    return b"".join(parts)


def is_running(port: int) -> bool:
    """Return whether Redis replies at ``port`` of this machine."""
    try:
        with socket.create_connection(("127.0.0.1", port), 1) as connection:
            connection.sendall(command("PING"))
            return connection.recv(64).startswith(b"+PONG")
    except OSError:
        return False


def run(port: int, commands: Sequence[Sequence[bytes]]) -> float:
    """Send the commands of all clients; return the commands per second.

    The clients are concurrent; a client sends a command when the previous command is answered.
    """
    return asyncio.run(_run(port, commands))


async def _run(port: int, commands: Sequence[Sequence[bytes]]) -> float:
    began = time.perf_counter()
    await asyncio.gather(*(_client(port, each) for each in commands))
    return sum(map(len, commands)) / (time.perf_counter() - began)


async def _client(port: int, commands: Sequence[bytes]) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=2**24)
    for each in commands:
        writer.write(each)
        await read_reply(reader)
    writer.close()


async def read_reply(reader: asyncio.StreamReader) -> int:
    """Read a reply; return the length of its strings (bytes).

    Raises ``AssertionError`` if the reply is an error.
    """
    line = await reader.readuntil(b"\r\n")
    kind, rest = line[:1], line[1:-2]
    if kind == b"-":
        raise AssertionError(line.decode())
    if kind == b"$" and rest != b"-1":
        await reader.readexactly(int(rest) + 2)
        return int(rest)
    if kind == b"*":
        return sum([await read_reply(reader) for _ in range(int(rest))])
    return 0
