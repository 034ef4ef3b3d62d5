"""Bounds of the memory that a broker can fill: the messages that wait, and a packet in transit."""

import asyncio

import aiomqtt
from paho.mqtt.client import Client

_MAX_QUEUED_BYTES = 64 * 2**20
_RECEIVED_BYTES = 64 * 2**10


class MessageQueue(asyncio.Queue[aiomqtt.Message]):
    """A queue of messages that is also full if their topics and payloads have many bytes.

    ``has_overrun``: whether a message was dropped because the queue was full.
    """

    def _init(self, maxsize: int) -> None:
        super()._init(maxsize)
        self.has_overrun = False
        self._bytes = 0

    def full(self) -> bool:
        """Return whether the next message is dropped, and record that."""
        is_full = super().full() or self._bytes >= _MAX_QUEUED_BYTES
        self.has_overrun = self.has_overrun or is_full
        return is_full

    def _put(self, item: aiomqtt.Message) -> None:
        self._bytes += _size(item)
        super()._put(item)

    def _get(self) -> aiomqtt.Message:
        message: aiomqtt.Message = super()._get()
        self._bytes -= _size(message)
        return message


def _size(message: aiomqtt.Message) -> int:
    return len(message.topic.value) + len(message.payload)


def bound_packets(client: Client, max_bytes: int) -> None:
    """Limit the part of a packet that a client keeps in memory to about ``max_bytes``.

    Without the limit, the client would collect up to 256 MB. The rest of the packet is received and
    dropped, so that the message can be rejected and acknowledged, and the broker does not send it
    again.
    """
    receive = client._sock_recv

    def receive_part(bufsize: int) -> bytes:
        del client._in_packet["packet"][max_bytes:]
        return receive(min(bufsize, _RECEIVED_BYTES))

    client._sock_recv = receive_part  # type: ignore[method-assign]
