"""A name server for tests that delays its answers: ``python -m tests.support.name_server NAMES``.

``NAMES``: JSON of the form ``{"edge.test": ["10.0.0.1", 0.0]}``, an address (null: the name does
not exist) and the delay of the answer (s). Other names do not exist. It serves UDP at 127.0.0.1:53
of the network namespace of the process.
"""

import asyncio
import json
import socket
import struct
import sys
from typing import Any

_A = 1
_ANSWER, _NO_NAME = 0x8180, 0x8183


class NameServer(asyncio.DatagramProtocol):
    """Answers queries of the types A and AAAA; the latter always without an address."""

    def __init__(self, names: dict[str, tuple[str | None, float]]) -> None:
        self._names = names
        self._transport: Any = None

    def connection_made(self, transport: Any) -> None:
        """Remember the socket."""
        self._transport = transport

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        """Answer a query after the delay of its name."""
        labels, end = [], 12
        while size := data[end]:
            labels.append(data[end + 1 : end + 1 + size].decode().lower())
            end += 1 + size
        question = data[12 : end + 5]
        address, delay_s = self._names.get(".".join(labels), (None, 0.0))
        records = b""
        if address is not None and struct.unpack(">H", question[-4:-2])[0] == _A:
            # The name is that of the question, the class IN, the lifetime 0.
            records = struct.pack(">HHHIH", 0xC00C, _A, 1, 0, 4) + socket.inet_aton(address)
        flags = _NO_NAME if address is None else _ANSWER
        head = data[:2] + struct.pack(">HHHHH", flags, 1, int(bool(records)), 0, 0)
        loop = asyncio.get_running_loop()
        loop.call_later(delay_s, self._transport.sendto, head + question + records, addr)


async def serve(names: dict[str, tuple[str | None, float]]) -> None:
    """Answer queries until the process ends."""
    loop = asyncio.get_running_loop()
    await loop.create_datagram_endpoint(lambda: NameServer(names), ("127.0.0.1", 53))
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(serve(json.loads(sys.argv[1])))
