"""Answers before the end of a body: the client receives them, though it still sends the body."""

import contextlib
import http.client
import socket
import ssl
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest
from fastapi import FastAPI, Request
from pydantic import SecretStr

from mistbow.auth.rules import requires
from mistbow.http.protocol import BoundedProtocol
from mistbow.tls import TlsFiles, client_context
from storage_agent.settings import AgentSettings
from tests.support.certificates import Authority
from tests.support.conditions import eventually
from tests.support.http_server import plain_service, served

# The tests wait for limits of time.
pytestmark = pytest.mark.integration

OWN = "of-the-fog"
LOGIN = {"Authorization": f"Bearer {OWN}"}
MAX_BYTES = 8 * 2**20
HEAD = b"POST /body HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n"
DELETION = b"DELETE /points HTTP/1.1\r\nHost: localhost\r\n\r\n"
FOREIGN = HEAD.replace(b"\r\n\r\n", b"\r\nOrigin: http://evil.example\r\n\r\n")


def service(home: Path | None = None) -> FastAPI:
    """Return an application that reads bodies; with a home, it needs a token."""
    settings = AgentSettings() if home is None else AgentSettings(home=home, token=SecretStr(OWN))
    app = plain_service(settings)
    app.state.deletions = 0

    @app.post("/body")
    @requires("ingest")
    async def body(request: Request) -> int:
        return len(await request.body())

    @app.delete("/points")
    @requires("ingest")
    async def delete() -> None:
        app.state.deletions += 1

    return app


@pytest.fixture(params=["uvloop", "asyncio"])
def loop(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def url(loop: str, tmp_path: Path) -> Iterator[str]:
    with served(service(tmp_path), http=BoundedProtocol, loop=loop) as url:
        yield url


def post(url: str, size: int, headers: dict[str, str], tls: ssl.SSLContext | None = None) -> int:
    """Send a body of a size at once by Python's own client; return the status of the answer."""
    host = urlsplit(url).netloc
    connection = (
        http.client.HTTPConnection(host, timeout=15)
        if tls is None
        else http.client.HTTPSConnection(host, timeout=15, context=tls)
    )
    with closing(connection):
        connection.request("POST", "/body", bytes(size), headers)
        answer = connection.getresponse()
        assert answer.headers["Connection"] == "close"
        assert answer.read().endswith(b"}")
        return answer.status


@pytest.mark.parametrize("size", [MAX_BYTES + 1, 20_000_000])
def test_client_that_sends_a_large_body_receives_an_early_answer(url: str, size: int) -> None:
    encoded = LOGIN | {"Content-Encoding": "gzip"}
    for headers, status in ((LOGIN, 413), ({}, 401), (encoded, 415)):
        for _ in range(3):
            assert post(url, size, headers) == status


def test_foreign_web_page_receives_the_answer_to_a_large_body(loop: str) -> None:
    with served(service(), http=BoundedProtocol, loop=loop) as url:
        assert post(url, 20_000_000, {"Origin": "http://evil.example"}) == 403


def test_client_with_tls_receives_an_early_answer(loop: str, tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    files = authority.serve("127.0.0.1")
    tls = TlsFiles(None, files.certificate, files.key)
    with served(service(tmp_path), tls=tls, http=BoundedProtocol, loop=loop) as url:
        context = client_context(authority.file)
        for headers, status in ((LOGIN, 413), ({}, 401)):
            assert post(url, 20_000_000, headers, context) == status


def test_body_without_a_length_receives_an_early_answer(url: str) -> None:
    parts = (bytes(100_000) for _ in range(120))
    assert httpx.post(f"{url}/body", content=parts, headers=LOGIN).status_code == 413


def connect(url: str) -> socket.socket:
    return socket.create_connection(("127.0.0.1", urlsplit(url).port or 0), timeout=10)


def is_open(connection: socket.socket) -> bool:
    """Return whether the server still receives what a client sends."""
    try:
        connection.sendall(b".")
    except ConnectionError:
        return False
    return True


def test_connection_closes_after_the_rest_of_the_body_and_serves_no_further_request(
    loop: str,
) -> None:
    app = service()
    received: list[int] = []

    class Counting(BoundedProtocol):
        def data_received(self, data: bytes) -> None:
            received.append(len(data))
            super().data_received(data)

    with served(app, http=Counting, loop=loop) as url, connect(url) as client:
        sent = FOREIGN % 200_000 + bytes(100_000)
        client.sendall(sent)
        answer = b"".join(iter(lambda: client.recv(65536), b""))  # until the sending side is closed
        assert answer.startswith(b"HTTP/1.1 403")
        client.sendall(b".")
        eventually(lambda: sum(received) == len(sent) + 1, what="the service reads further bytes")
        client.sendall(bytes(99_999) + DELETION)
        eventually(lambda: not is_open(client), what="the connection is closed")
        assert httpx.delete(f"{url}/points").status_code == 200
    assert app.state.deletions == 1


class Hasty(BoundedProtocol):
    head_seconds = 0.5
    max_rest_bytes = 2**20


@pytest.fixture
def hasty(loop: str, tmp_path: Path) -> Iterator[str]:
    with served(service(tmp_path), http=Hasty, loop=loop) as url:
        yield url


def test_connection_closes_if_the_rest_of_the_body_is_late(hasty: str) -> None:
    with connect(hasty) as client:
        client.sendall(HEAD % 200_000)
        assert client.recv(65536).startswith(b"HTTP/1.1 401")
        begun = time.monotonic()
        while is_open(client) and time.monotonic() < begun + 10:
            time.sleep(0.02)
        assert 0.3 < time.monotonic() - begun < 5


@pytest.mark.parametrize(
    ("path", "more", "status"),
    [(b"/body", b"", b"401"), (b"/none", f"Authorization: Bearer {OWN}\r\n".encode(), b"404")],
    ids=["closing", "keeping"],
)
def test_connection_closes_if_the_rest_of_the_body_is_too_large(
    hasty: str, path: bytes, more: bytes, status: bytes
) -> None:
    line = b"POST %b HTTP/1.1\r\nHost: localhost\r\n%b" % (path, more)
    sent = 0
    with connect(hasty) as client, contextlib.suppress(ConnectionError):
        client.sendall(line + b"Transfer-Encoding: chunked\r\n\r\n%x\r\n" % 2**30)
        assert client.recv(65536).startswith(b"HTTP/1.1 " + status)
        while sent < 2**26:
            client.sendall(bytes(2**16))
            sent += 2**16
    assert 2**20 <= sent < 2**26


class Crowded(BoundedProtocol):
    max_connections = 16


def test_connections_that_await_the_rest_of_bodies_give_way_to_others(loop: str) -> None:
    with served(service(), http=Crowded, loop=loop) as url, ExitStack() as stack:
        lingering = []
        for _ in range(40):
            client = stack.enter_context(connect(url))
            client.sendall(FOREIGN % 9)
            assert client.recv(65536).startswith(b"HTTP/1.1 403")
            lingering.append(client)
        assert httpx.get(f"{url}/healthz").status_code == 200
        eventually(lambda: sum(map(is_open, lingering)) <= 16, what="the oldest ones are closed")


def test_service_stops_while_a_connection_awaits_the_rest_of_a_body(loop: str) -> None:
    with ExitStack() as stack:
        with served(service(), http=BoundedProtocol, loop=loop) as url:
            client = stack.enter_context(connect(url))
            client.sendall(FOREIGN % 9)
            assert client.recv(65536).startswith(b"HTTP/1.1 403")
        eventually(lambda: not is_open(client), what="the connection is closed")


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (b"POST /body HTTP/1.1\r\nHost: localhost\r\nContent-Length: x\r\n\r\n", b"400"),
        (
            b"POST http://evil.example/ HTTP/1.1\r\nHost: x\r\nContent-Length: 900000\r\n\r\n",
            b"400",
        ),
        (
            b"POST /body HTTP/1.1\r\nX: %b\r\nContent-Length: 900000\r\n\r\n" % (b"y" * 70_000),
            b"431",
        ),
    ],
    ids=["invalid", "foreign", "large-head"],
)
def test_client_that_sends_a_body_after_a_rejected_head_receives_the_error(
    url: str, head: bytes, status: bytes
) -> None:
    for _ in range(5):
        with connect(url) as client:
            client.sendall(head + bytes(900_000))
            answer = b"".join(iter(lambda: client.recv(65536), b""))
            assert answer.startswith(b"HTTP/1.1 " + status)
            assert answer.count(b"Connection: close") == 1
