"""Requests for another protocol, such as HTTP/2: they are answered as any other request."""

import socket
from collections.abc import Iterator

import httpx
import pytest
from fastapi import Request

from mistbow.auth.rules import requires
from mistbow.http.protocol import BoundedProtocol
from storage_agent.settings import AgentSettings
from tests.support.http_server import plain_service, served

HEAD = (
    b"POST /body HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade, HTTP2-Settings\r\n"
    b"Upgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAoAAAAAIAAAAA\r\n"
)
LAST = (
    b"POST /body HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: 4\r\n\r\nlast"
)


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """Serve an application that answers with the body of a request."""
    app = plain_service(AgentSettings())

    @app.post("/body")
    @requires("ingest")
    async def body(request: Request) -> str:
        return (await request.body()).decode()

    with served(app, http=BoundedProtocol) as url:
        yield url


def answers(url: str, *parts: bytes) -> list[bytes]:
    """Send bytes in separate writes; return the status and the body of each answer."""
    with socket.create_connection(("127.0.0.1", httpx.URL(url).port or 0), 10) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for part in parts:
            connection.sendall(part)
        received = b"".join(iter(lambda: connection.recv(65536), b""))
    return [
        each[:3] + b" " + each.partition(b"\r\n\r\n")[2]
        for each in received.split(b"HTTP/1.1 ")[1:]
    ]


@pytest.mark.parametrize("size", [1, 100, 1990, 100_000])
@pytest.mark.parametrize("is_chunked", [False, True])
def test_request_for_another_protocol_keeps_its_body(url: str, size: int, is_chunked: bool) -> None:
    body = b"x" * size
    if is_chunked:
        head, sent = HEAD + b"Transfer-Encoding: chunked\r\n\r\n", b"%x\r\n%b\r\n0\r\n\r\n"
        sent %= (size, body)
    else:
        head, sent = HEAD + b"Content-Length: %d\r\n\r\n" % size, body
    expected = [b'200 "%b"' % body, b'200 "last"']
    assert answers(url, head + sent + LAST) == expected
    assert answers(url, head, sent, LAST) == expected
    assert answers(url, head[:100], head[100:] + sent[:1], sent[1:], LAST) == expected


def test_last_request_of_a_connection_may_be_for_another_protocol(url: str) -> None:
    head = HEAD.replace(b"Upgrade,", b"close, Upgrade,") + b"Content-Length: 4\r\n\r\n"
    assert answers(url, head + b"last") == [b'200 "last"']
    assert answers(url, head, b"last") == [b'200 "last"']


def test_many_requests_for_another_protocol_may_follow_each_other(url: str) -> None:
    one = HEAD + b"Content-Length: 3\r\n\r\none"
    assert answers(url, one * 500 + LAST) == [b'200 "one"'] * 500 + [b'200 "last"']


def test_head_for_another_protocol_is_checked_as_any_other(url: str) -> None:
    [large] = answers(url, HEAD + b"X: %b\r\n\r\n" % (b"y" * 70_000))
    assert large.startswith(b"431")
    [foreign] = answers(url, HEAD.replace(b"/body", b"http://other/body") + b"\r\n")
    assert foreign.startswith(b"400")


@pytest.mark.parametrize("target", [b"/body", b"*", b"other:80", b"http://localhost/body"])
def test_request_of_a_proxy_is_refused(url: str, target: bytes) -> None:
    [answer] = answers(url, b"CONNECT %b HTTP/1.1\r\nHost: localhost\r\n\r\n" % target)
    assert answer.startswith(b"400")
    assert b"not a proxy" in answer.replace(b"\\n", b" ")
