"""Bodies that are slow, heads that are slow or large, and too many requests at once."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI, Request
from fastapi.responses import StreamingResponse

from mistbow.auth.rules import requires
from mistbow.client.transport import Call, Transport
from mistbow.errors import TooManyRequestsError, UnavailableError
from mistbow.http.protocol import BoundedProtocol
from mistbow.service import create_service
from mistbow.settings import AgentSettings
from tests.support.certificates import Authority
from tests.support.serving import served
from tests.support.waiting import eventually


async def ready() -> list[str]:
    return []


def service(**settings: Any) -> FastAPI:
    """Return a service that reads bodies, and one that answers bit by bit until it is left."""
    app = create_service("test", AgentSettings(**settings), readiness=ready)
    held: list[int] = []

    @app.post("/body")
    @requires("ingest")
    async def body(request: Request) -> int:
        return len(await request.body())

    async def parts(part: bytes) -> AsyncIterator[bytes]:
        held.append(1)
        try:
            while True:
                yield part
                await asyncio.sleep(0.02)
        finally:
            held.pop()

    @app.get("/held")
    @app.get("/streams/held")
    @requires("read")
    async def hold(follow: bool = False) -> StreamingResponse:
        return StreamingResponse(parts(b"."))

    @app.get("/much")
    @requires("read")
    async def much() -> StreamingResponse:
        return StreamingResponse(parts(b"." * 2**20))

    @app.get("/count")
    @requires("read")
    async def count() -> int:
        return len(held)

    return app


def answer_to(url: str, *parts: bytes) -> bytes:
    """Send something raw, and return all that comes until the connection ends."""
    host, port = httpx.URL(url).host, httpx.URL(url).port
    with socket.create_connection((host, port or 0), timeout=10) as connection:
        for part in parts:
            connection.sendall(part)
        return b"".join(iter(lambda: connection.recv(65536), b""))


def test_a_body_that_does_not_come_is_answered_408() -> None:
    with served(service(body_seconds=0.2)) as url:
        head = b"POST /body HTTP/1.1\r\nHost: h\r\nConnection: close\r\nContent-Length: %d\r\n\r\n"
        answer = answer_to(url, head % 100, b"a few bytes")
        assert answer.startswith(b"HTTP/1.1 408")
        assert b"did not come within 0.2 s" in answer
        assert b"MISTBOW_BODY_SECONDS" in answer
        # What comes in time is not touched, and neither is an answer that takes longer.
        assert answer_to(url, head % 5 + b"bytes").endswith(b"\r\n\r\n5")
        with httpx.stream("GET", f"{url}/held") as held:
            assert sum(len(part) for part in islice(held.iter_raw(), 20)) >= 20


def test_a_body_that_is_too_large_is_answered_413_declared_or_not() -> None:
    with served(service(max_body_bytes=1024)) as url:
        for content in (b"x" * 2000, iter([b"x" * 700] * 3)):
            answer = httpx.post(f"{url}/body", content=content)
            assert (answer.status_code, answer.json()["error"]["code"]) == (413, "too_large")
        assert httpx.post(f"{url}/body", content=b"x" * 1024).json() == 1024


def test_too_many_requests_are_answered_429_and_followers_are_counted_apart() -> None:
    with served(service(max_requests=2, max_followers=1)) as url, contextlib.ExitStack() as stack:
        for _ in range(2):
            stack.enter_context(httpx.stream("GET", f"{url}/held"))
        refused = httpx.get(f"{url}/count")
        assert refused.status_code == 429
        assert refused.headers["Retry-After"] == "1"
        assert "MISTBOW_MAX_REQUESTS" in refused.text
        # Whoever watches must still be answered, and who follows has places of its own.
        for path in ("/healthz", "/readyz", "/metrics"):
            assert httpx.get(url + path).status_code == 200
        stack.enter_context(httpx.stream("GET", f"{url}/streams/held?follow=true"))
        for yes in ("true", "t", "On"):
            refused = httpx.get(f"{url}/streams/held?follow={yes}")
            assert (refused.status_code, refused.headers["Retry-After"]) == (429, "1")
            assert "MISTBOW_MAX_FOLLOWERS" in refused.text
        # What does not follow has no more places by saying so.
        for answer in (httpx.get(f"{url}/held?follow=true"), httpx.post(f"{url}/body?follow=true")):
            assert "MISTBOW_MAX_REQUESTS" in answer.text
        stack.close()
        eventually(lambda: httpx.get(f"{url}/count").is_success, what="places are free again")


def test_the_client_repeats_what_found_no_place_and_tells_the_rest() -> None:
    with served(service(max_requests=1)) as url:
        call = Call("GET", "/count", lambda answer: answer.json(), repeatable=True)
        transport = Transport(url, attempts=2)
        with httpx.stream("GET", f"{url}/held"), pytest.raises(TooManyRequestsError):
            transport.send(call)
        assert eventually(lambda: transport.send(call) == 0)
        transport.close()


class Impatient(BoundedProtocol):
    reader_seconds = 0.3


def test_a_reader_that_takes_nothing_is_cut_off_and_its_place_is_free() -> None:
    with served(service(max_requests=1), http=Impatient) as url, socket.socket() as idle:
        idle.connect(("127.0.0.1", httpx.URL(url).port))
        idle.sendall(b"GET /much HTTP/1.1\r\nHost: h\r\n\r\n")
        assert idle.recv(15) == b"HTTP/1.1 200 OK"
        eventually(lambda: httpx.get(f"{url}/count").is_success, what="its place is free")
        with contextlib.suppress(ConnectionResetError):
            while idle.recv(2**20):
                pass


class Hasty(BoundedProtocol):
    head_seconds = 0.3


@pytest.mark.parametrize("sent", [b"", b"GET /count HTT", b"GET /count HTTP/1.1\r\nX: y\r\n"])
def test_a_head_that_does_not_come_ends_the_connection(sent: bytes) -> None:
    with served(service(), http=Hasty) as url:
        assert answer_to(url, sent).startswith(b"HTTP/1.1 408")


@pytest.fixture(scope="module")
def bounded() -> Iterator[str]:
    with served(service(), http=BoundedProtocol) as url:
        yield url


def test_a_head_that_is_too_large_ends_the_connection(bounded: str) -> None:
    parts = [b"GET /count HTTP/1.1\r\n", *(b"X-%d: %b\r\n" % (i, b"y" * 1000) for i in range(900))]
    with contextlib.suppress(ConnectionError):
        assert b"HTTP/1.1 431" in answer_to(bounded, *parts)
    assert httpx.get(f"{bounded}/count").json() == 0


def test_a_connection_is_kept_for_many_requests(bounded: str) -> None:
    with httpx.Client() as client:
        for size in (0, 10, 100_000):
            assert client.post(f"{bounded}/body", content=b"x" * size).json() == size


def test_services_serve_tls_and_clients_check_it(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    shown = authority.serve("127.0.0.1")
    files: dict[str, Any] = {"ssl_certfile": shown.certificate, "ssl_keyfile": shown.key}
    call = Call("GET", "/count", lambda answer: answer.json())
    with served(service(), **files) as url:
        https = url.replace("http:", "https:")
        trusting = Transport(https, ca=authority.file)
        assert trusting.send(call) == 0
        trusting.close()
        stranger = tmp_path / "stranger"
        stranger.mkdir()
        for ca in (None, Authority(stranger).file):
            with pytest.raises(UnavailableError, match="certificate verify failed"):
                Transport(https, ca=ca).send(call)
        other = https.replace("127.0.0.1", "localhost")
        with pytest.raises(UnavailableError, match="Hostname mismatch"):
            Transport(other, ca=authority.file).send(call)
