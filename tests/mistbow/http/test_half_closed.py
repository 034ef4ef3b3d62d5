"""Clients that close their sending side after a request, and read the answer."""

import asyncio
import socket
from collections import defaultdict
from collections.abc import Iterator

import httpx
import pytest
from fastapi import FastAPI, Request

from mistbow.auth.rules import requires
from mistbow.http.protocol import BoundedProtocol
from storage_agent.settings import AgentSettings
from tests.support.http_server import plain_service, served

# The tests wait for limits of time.
pytestmark = pytest.mark.integration

PUT = b"POST /body HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\n"


half_closed: defaultdict[object, asyncio.Event] = defaultdict(asyncio.Event)
"""Address of a client -> the event that is set when its sending side is closed."""


def service() -> FastAPI:
    """Return an application that answers once the client's sending side is closed, or never."""
    app = plain_service(AgentSettings())

    @app.post("/body")
    @requires("ingest")
    async def body(request: Request) -> int:
        found = await request.body()
        await half_closed[request.client].wait()
        return len(found)

    @app.get("/never")
    @requires("read")
    async def never() -> None:
        await asyncio.Event().wait()

    return app


class Hasty(BoundedProtocol):
    half_closed_seconds = 0.3


class Patient(BoundedProtocol):
    half_closed_seconds = 60.0

    def eof_received(self) -> bool:  # type: ignore[override]
        half_closed[self.client].set()
        return super().eof_received()


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with served(service(), http=Patient) as url:
        yield url


def answer_to(url: str, sent: bytes) -> bytes:
    """Send bytes and the end of the sending side; return all that is received."""
    host, port = httpx.URL(url).host, httpx.URL(url).port
    with socket.create_connection((host, port or 0), timeout=10) as connection:
        connection.sendall(sent)
        connection.shutdown(socket.SHUT_WR)
        return b"".join(iter(lambda: connection.recv(65536), b""))


@pytest.mark.parametrize("requests", [1, 3])
def test_half_closed_connection_is_closed_after_its_answers(url: str, requests: int) -> None:
    answer = answer_to(url, (PUT + b"bytes") * requests)
    assert answer.count(b"HTTP/1.1 200 OK") == requests
    assert answer.endswith(b"\r\n\r\n5")


@pytest.mark.parametrize("loop", ["uvloop", "asyncio"])
def test_answer_is_sent_though_the_client_half_closes_at_the_same_moment(loop: str) -> None:
    """The end of the client's data was read before the answer was written, which dropped it."""
    with served(service(), http=Patient, loop=loop) as url:
        for _ in range(30):
            answer = answer_to(url, b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert answer.startswith(b"HTTP/1.1 200 OK")
            assert answer.endswith(b'{"status":"ok"}')


@pytest.mark.parametrize("sent", [b"", PUT[:20], PUT + b"byt"])
def test_half_closed_connection_without_a_complete_request_is_closed(url: str, sent: bytes) -> None:
    assert answer_to(url, sent) == b""


def test_half_closed_connection_is_closed_if_its_answer_takes_long() -> None:
    with served(service(), http=Hasty) as url:
        assert answer_to(url, b"GET /never HTTP/1.1\r\nHost: localhost\r\n\r\n") == b""
