"""The HTTP protocol: the head and the body of an answer are sent by one write."""

import asyncio

from mistbow.http.coalescing_transport import CoalescingTransport


class Noting(asyncio.Transport):
    """A transport that records the data of each write."""

    def __init__(self) -> None:
        super().__init__()
        self.written: list[bytes] = []
        self.closed = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        assert not self.closed
        self.written.append(bytes(data))

    def is_closing(self) -> bool:
        return self.closed

    def close(self) -> None:
        self.closed = True

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        self.written.append(b"(end)")


async def test_transport_joins_small_writes_of_one_iteration_and_passes_large_ones() -> None:
    below = Noting()
    transport = CoalescingTransport(below, asyncio.get_running_loop(), lambda: False)
    transport.write(b"head ")
    transport.write(b"body")
    assert below.written == []
    await asyncio.sleep(0)
    assert below.written == [b"head body"]
    large = bytes(10_000)
    transport.write(b"head ")
    transport.write(large)
    assert below.written[1:] == [b"head ", large]
    transport.write(b"last")
    transport.close()
    assert (below.written[3:], transport.is_closing()) == ([b"last"], True)
    await asyncio.sleep(0)
    assert len(below.written) == 4


async def test_lingering_transport_writes_nothing_more_and_closes_at_the_second_call() -> None:
    below = Noting()
    transport = CoalescingTransport(below, asyncio.get_running_loop(), lambda: True)
    transport.write(b"answer")
    transport.close()
    transport.write(b"more")
    await asyncio.sleep(0)
    assert below.written == [b"answer", b"(end)"]
    assert (transport.is_closing(), below.closed) == (True, False)
    transport.close()
    assert below.closed
