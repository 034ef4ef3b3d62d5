"""Broken and hostile brokers: the agent survives, stays small, and stores later messages."""

import asyncio
import json
import random
from asyncio import StreamReader, StreamWriter
from collections.abc import Awaitable, Callable
from contextlib import closing
from pathlib import Path

import pytest

from ignite_server.server import IgniteServer
from mistbow.client.agent import AgentClient
from storage_agent.ingest import mqtt
from storage_agent.settings import AgentSettings
from tests.storage_agent.ingest.conftest import counted, stored
from tests.support.agents import running_agent
from tests.support.conditions import eventually
from tests.support.services import storage_agent
from tests.support.tcp_server import tcp_server

NOW = 1_795_262_400_000
CONNACK = b"\x20\x02\x00\x00"
MEGABYTE = 2**20

Behave = Callable[[StreamReader, StreamWriter], Awaitable[None]]


def packet(kind: int, body: bytes) -> bytes:
    length, rest = bytearray(), len(body)
    while True:
        rest, byte = divmod(rest, 128)
        length.append(byte | (128 if rest else 0))
        if not rest:
            return bytes([kind]) + bytes(length) + body


def publish(topic: bytes, payload: bytes, kind: int = 0x30) -> bytes:
    mid = b"" if kind & 6 == 0 else b"\x00\x07"
    return packet(kind, len(topic).to_bytes(2) + topic + mid + payload)


def point(number: int, padding: int = 0) -> bytes:
    body = {"val": number, "timestamp": NOW + number, "padding": "x" * padding}
    return json.dumps(body).encode()


async def read_packet(reader: StreamReader) -> bytes:
    await reader.readexactly(1)
    length = shift = 0
    while True:
        [byte] = await reader.readexactly(1)
        length |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return await reader.readexactly(length)


async def accept(reader: StreamReader, writer: StreamWriter) -> None:
    """Accept a connection and its subscription."""
    await read_packet(reader)
    writer.write(CONNACK)
    subscribe = await read_packet(reader)
    writer.write(packet(0x90, subscribe[:2] + b"\x01"))


def sends(*data: bytes, accepted: bool = True) -> Behave:
    """Return a broker that sends bytes, and then reads until the agent disconnects."""

    async def behave(reader: StreamReader, writer: StreamWriter) -> None:
        if accepted:
            await accept(reader, writer)
        for part in data:
            writer.write(part)
            await writer.drain()
        while await reader.read(MEGABYTE):
            pass

    return behave


async def closes(reader: StreamReader, writer: StreamWriter) -> None:
    writer.close()


NOISE = random.Random(14).randbytes(MEGABYTE)  # noqa: S311 - the same at each run
HOSTILE = [
    closes,
    sends(NOISE, accepted=False),
    sends(b"HTTP/1.1 400 Bad Request\r\n\r\n", accepted=False),
    sends(b"\x20\x02\x00\x05", accepted=False),  # not authorized
    sends(NOISE),
    sends(b"\x30\xff\xff\xff\xff\xff"),  # a length of five bytes
    sends(b"\x30\x00"),  # no topic
    sends(b"\x30\x02\xff\xff"),  # a topic beyond the packet
    sends(publish(b"sensors/e/\xff\xfe", b"1"), b"\xe0\x00\xff"),
    sends(publish(b"sensors/e/m", b"1", 0x36), b"\xe0\x00\xff"),  # QoS 3
    sends(b"\x62\x02\x00\x09" * 1000, CONNACK * 1000, b"\x90\x03\x00\x01\x80", b"\x00\x00"),
]


@pytest.mark.soak
def test_agent_stores_what_a_broker_sends_after_all_kinds_of_garbage(
    own_settings: AgentSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mqtt, "_MAX_BACKOFF_S", 0.2)
    remaining = iter(HOSTILE)

    async def serve(reader: StreamReader, writer: StreamWriter) -> None:
        behave = next(remaining, sends(publish(b"sensors/e/after_garbage", point(1))))
        try:
            async with asyncio.timeout(0.5):
                await behave(reader, writer)
        except (OSError, TimeoutError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    with tcp_server(serve) as port:
        values = {**own_settings.model_dump(), "mqtt_url": f"mqtt://127.0.0.1:{port}"}
        settings = AgentSettings(**{**values, "mqtt_topics": "sensors/{entityID}/{metricID}"})
        with running_agent(settings) as url, closing(AgentClient(url)) as client:
            eventually(
                lambda: stored(client, "after_garbage"), timeout=60, what="the point is stored"
            )
            assert next(remaining, None) is None


@pytest.mark.soak
def test_huge_payloads_and_topics_take_little_memory_and_are_rejected(
    ignite: IgniteServer, tmp_path: Path
) -> None:
    flood = [publish(b"sensors/e/flood", point(number, MEGABYTE // 2)) for number in range(4)]
    topics = [b"sensors/" + b"e" * 65_000 + b"/m", b"/" * 65_000]
    data = [
        publish(b"sensors/e/huge", b" " * 200 * MEGABYTE, 0x32),
        *(flood * 100),
        *([publish(topic, point(1)) for topic in topics] * 4000),
        publish(b"sensors/e/after_flood", point(1)),
    ]

    async def serve(reader: StreamReader, writer: StreamWriter) -> None:
        try:
            await sends(*data)(reader, writer)
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            # After an overrun, the agent connects again.
            data[:-1] = []
            writer.close()

    with tcp_server(serve) as port:
        settings = {
            "node": "n1",
            "mqtt_url": f"mqtt://127.0.0.1:{port}",
            "mqtt_topics": "sensors/{entityID}/{metricID}",
            "max_body_bytes": str(MEGABYTE),
        }
        with (
            storage_agent(tmp_path, ignite.port, **settings) as agent,
            closing(AgentClient(agent.url)) as client,
        ):
            eventually(
                lambda: stored(client, "after_flood"), timeout=60, what="the point is stored"
            )
            labels = {"source": "mqtt", "reason": "payload"}
            assert counted(agent.url, "mistbow_agent_refused_points_total", **labels) >= 1
            assert peak_bytes(agent.pid) < 450 * MEGABYTE


def peak_bytes(pid: int) -> int:
    """Return the greatest resident memory that a process has had."""
    [line] = [
        line
        for line in Path(f"/proc/{pid}/status").read_text().splitlines()
        if line.startswith("VmHWM:")
    ]
    return int(line.split()[1]) * 1024
