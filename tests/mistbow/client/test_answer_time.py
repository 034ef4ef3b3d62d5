"""Answers that arrive byte by byte: a client ends its request after a bounded time."""

import asyncio
import gzip
import time
from asyncio import StreamReader, StreamWriter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager

import httpx
import pytest

from analytics.client.worker import AsyncWorkerClient
from mistbow.client import fabric_calls, transport
from mistbow.client.agent import AsyncAgentClient
from mistbow.client.answer_time import MIN_BYTES_PER_S, AnswerTime, read_within, send_within
from mistbow.client.transport import AsyncTransport, Call, Transport
from mistbow.errors import UnavailableError
from mistbow.fabric import Enabler, Worker
from mistbow.streams.models import StreamInfo
from tests.support.tcp_server import tcp_server
from tests.support.trickle import Trickle

URL = "http://127.0.0.1:1"
READ = Call("GET", "/", lambda answer: answer.content, repeatable=True)
HEAD = b"HTTP/1.1 200 OK\r\nContent-Length: 60\r\n\r\n"
TOO_SLOW = f"{URL} answers too slowly"


@pytest.fixture(autouse=True)
def times(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_CONNECT_S", "_PROOF_S", "_ANSWER_S"):
        monkeypatch.setattr(transport, name, 0.3)


def answering(
    client: AsyncAgentClient | AsyncWorkerClient,
    answer: Callable[[httpx.Request], Awaitable[httpx.Response]],
) -> list[str]:
    """Let a function answer the requests of a client; return the list of their methods."""
    received: list[str] = []

    async def handle(request: httpx.Request) -> httpx.Response:
        received.append(request.method)
        return await answer(request)

    client._transport._http._transport = httpx.MockTransport(handle)
    return received


async def trickle(_: httpx.Request) -> httpx.Response:
    return httpx.Response(200, stream=Trickle())


async def never(_: httpx.Request) -> httpx.Response:
    await asyncio.sleep(60)
    raise AssertionError


@pytest.mark.parametrize("answer", [trickle, never])
async def test_read_of_a_trickled_answer_ends_and_is_not_repeated(
    answer: Callable[[httpx.Request], Awaitable[httpx.Response]],
) -> None:
    agent = AsyncAgentClient(URL)
    received = answering(agent, answer)
    async with asyncio.timeout(5):
        with pytest.raises(UnavailableError, match=TOO_SLOW):
            await agent.info("x")
    assert received == ["GET"]
    await agent.close()


async def test_order_to_a_worker_that_trickles_ends() -> None:
    worker = AsyncWorkerClient(URL)
    answering(worker, trickle)
    async with asyncio.timeout(5):
        with pytest.raises(UnavailableError, match=TOO_SLOW):
            await worker.drain()
    await worker.close()


async def test_trickled_error_ends() -> None:
    agent = AsyncAgentClient(URL)

    async def refuse(_: httpx.Request) -> httpx.Response:
        return httpx.Response(503, stream=Trickle())

    answering(agent, refuse)
    async with asyncio.timeout(5):
        with pytest.raises(UnavailableError, match=TOO_SLOW):
            await agent.info("x")
    await agent.close()


async def test_long_answer_at_the_minimum_rate_is_read() -> None:
    part = bytes(MIN_BYTES_PER_S // 2)

    async def steady(_: httpx.Request) -> httpx.Response:
        return httpx.Response(200, stream=Trickle(part, 0.05, 50))

    async with httpx.AsyncClient(transport=httpx.MockTransport(steady), base_url=URL) as client:
        request = client.build_request("GET", "/")
        answer = await read_within(AnswerTime("it", 2.0, 2.0), client, request)
        assert len(answer.content) == 50 * len(part)
        with pytest.raises(UnavailableError, match="it answers too slowly"):
            await read_within(AnswerTime("it", 0.5, 0.5, max_s=0.3), client, request)


async def test_pauses_of_the_reader_do_not_count() -> None:
    async def fast(_: httpx.Request) -> httpx.Response:
        return httpx.Response(200, stream=Trickle(interval_s=0.01, count=5))

    async with httpx.AsyncClient(transport=httpx.MockTransport(fast), base_url=URL) as client:
        request = client.build_request("GET", "/")
        answer = await send_within(AnswerTime("it", 2.0, 2.0), client, request)
        async for _ in answer.aiter_raw():
            await asyncio.sleep(0.5)
        await answer.aclose()


async def test_compressed_answer_is_decoded() -> None:
    """The clients of people accept compressed answers."""
    agent = AsyncAgentClient(URL)
    body = b'{"streams": []}'

    async def compress(_: httpx.Request) -> httpx.Response:
        headers = {"Content-Encoding": "gzip"}
        stream = Trickle(gzip.compress(body), 0.01, 1)
        return httpx.Response(200, headers=headers, stream=stream)

    answering(agent, compress)
    found: list[StreamInfo] = await agent.streams()
    assert found == []
    await agent.close()


@contextmanager
def serving(
    at_once: bytes, in_parts: bytes, seconds: float = 6.0
) -> Iterator[tuple[str, list[bytes]]]:
    """Answer each request by bytes at once, and then by bytes one by one, within ``seconds``.

    Yield the URL, and the list of the heads of the requests.
    """
    received: list[bytes] = []

    async def serve(reader: StreamReader, writer: StreamWriter) -> None:
        received.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(at_once)
        for byte in in_parts:
            await asyncio.sleep(seconds / len(in_parts))
            writer.write(bytes([byte]))
        await reader.read()
        writer.close()

    with tcp_server(serve) as port:
        yield f"http://127.0.0.1:{port}", received


async def test_call_that_is_sent_to_a_frozen_service_is_not_repeated(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(transport, "_TIMEOUT", httpx.Timeout(0.3))
    with serving(b"", b"") as (url, received):
        client = Transport(url)
        with pytest.raises(UnavailableError, match="does not answer"):
            client.send(READ)
        client.close()
        assert len(received) == 1
        other = AsyncTransport(url)
        with pytest.raises(UnavailableError, match="does not answer"):
            await other.send(READ)
        await other.close()
        assert len(received) == 2


@pytest.mark.parametrize(
    ("at_once", "in_parts"), [(HEAD, bytes(60)), (b"", HEAD)], ids=["body", "head"]
)
def test_call_of_a_thread_that_is_answered_byte_by_byte_ends(
    at_once: bytes, in_parts: bytes
) -> None:
    with serving(at_once, in_parts) as (url, received):
        client = Transport(url)
        began = time.monotonic()
        with pytest.raises(UnavailableError, match=f"{url} answers too slowly"):
            client.send(READ)
        assert time.monotonic() - began < 4
        client.close()
        assert len(received) == 1


def test_stream_that_a_thread_follows_has_no_total_time() -> None:
    # A call ends after 1.5 s: see the times of this module.
    with serving(HEAD, bytes(60), seconds=2.0) as (url, _):
        client = Transport(url)
        with client.stream(READ) as answer:
            assert len(answer.read()) == 60
        client.close()


def announcement_of_worker() -> Call[None]:
    url = "http://127.0.0.1:2"
    return fabric_calls.announce(
        Worker(name="w", url=url, cores=1, cores_free=1, memory_mb=1, memory_free_mb=1)
    )


def announcement_of_enabler() -> Call[None]:
    return fabric_calls.announce_enabler(Enabler(domain="all", url="http://127.0.0.1:3"))


@pytest.mark.parametrize("announcement", [announcement_of_worker, announcement_of_enabler])
def test_announcement_does_not_wait_for_a_dead_connection(
    announcement: Callable[[], Call[None]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transport, "_ANSWER_S", 60.0)
    monkeypatch.setattr(fabric_calls, "_ANNOUNCEMENT_S", 0.3)
    connections = []

    async def serve(reader: StreamReader, writer: StreamWriter) -> None:
        connections.append(writer)
        if len(connections) > 1:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.1 204 No Content\r\n\r\n")
        await reader.read()

    with tcp_server(serve) as port:
        client = Transport(f"http://127.0.0.1:{port}")
        began = time.monotonic()
        with pytest.raises(UnavailableError, match="does not answer"):
            client.send(announcement())
        client.send(announcement())
        assert time.monotonic() - began < 5
        client.close()
    assert len(connections) == 2
    # The agent records an announcement even if it is busy for some seconds.
    monkeypatch.undo()
    assert fabric_calls._ANNOUNCEMENT_S >= 3


def test_mapped_call_has_the_times_of_the_call() -> None:
    call = Call("GET", "/", lambda _: 1, wait_s=2.0, answer_s=3.0)
    assert call.map(str).arguments()["timeout"] == httpx.Timeout(5.0, connect=0.3)
