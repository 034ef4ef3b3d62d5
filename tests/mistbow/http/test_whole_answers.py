"""Answers that an application sends as a whole, instead of by messages of ASGI."""

import re
import socket
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest
from starlette.types import Receive, Scope, Send

from mistbow.asgi import COMPLETE_BODY, WHOLE_ANSWER
from mistbow.http.protocol import BoundedProtocol
from tests.support.http_server import served

LINES = b"content-type: text/plain\r\ncontent-length: %d\r\n"
_DATE = re.compile(rb"date: [^\r]*\r\n")


async def _echo(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer with the body: at ``/whole`` at once, elsewhere by ASGI's messages."""
    if scope["type"] != "http":
        return
    body = b""
    while True:
        # Before a part is awaited, it is known whether it is the last one.
        is_complete = scope["extensions"][COMPLETE_BODY]["received"]()
        message = await receive()
        body += message["body"]
        if not message["more_body"]:
            break
        assert not is_complete
    if scope["path"] == "/whole":
        send_whole = scope["extensions"][WHOLE_ANSWER]["send"]
        assert send_whole(200, LINES % len(body), body)
        # An answer is sent once.
        assert not send_whole(200, LINES % len(body), body)
        return
    headers = [line.split(b": ") for line in (LINES % len(body)).split(b"\r\n")[:-1]]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


@pytest.fixture(scope="module")
def address() -> Iterator[tuple[str, int]]:
    with served(_echo, http=BoundedProtocol) as url:
        yield "127.0.0.1", urlsplit(url).port or 0


def _request(path: str, body: bytes, more: str = "", version: str = "1.1") -> bytes:
    head = f"POST {path} HTTP/{version}\r\nHost: x\r\n{more}Content-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


def _exchange(address: tuple[str, int], *parts: bytes) -> bytes:
    """Send the parts one after the other; return all that the server sends until it closes."""
    answer = b""
    with socket.create_connection(address, timeout=10) as client:
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for part in parts:
            client.sendall(part)
        while received := client.recv(65536):
            answer += received
    return _DATE.sub(b"", answer)


CLOSE = "Connection: close\r\n"


@pytest.mark.parametrize("version", ["1.1", "1.0"])
def test_whole_answer_is_that_of_messages(address: tuple[str, int], version: str) -> None:
    whole, by_messages = (
        _exchange(address, _request(path, b"the body", CLOSE, version)) for path in ("/whole", "/")
    )
    assert whole == by_messages
    assert whole.endswith(b"connection: close\r\n\r\nthe body")


def test_whole_answers_keep_the_connection_and_the_order_of_pipelined_requests(
    address: tuple[str, int],
) -> None:
    bodies = [b"%d" % number for number in range(6)]
    requests = [
        _request("/whole" if number % 3 else "/", body) for number, body in enumerate(bodies)
    ]
    answers = _exchange(address, b"".join(requests), _request("/whole", b"last", CLOSE))
    assert answers.count(b"HTTP/1.1 200 OK") == 7
    assert re.findall(rb"\r\n\r\n(\w+?)(?=HTTP|$)", answers) == [*bodies, b"last"]


def test_body_in_many_parts_is_complete_at_its_end_only(address: tuple[str, int]) -> None:
    request = _request("/whole", b"x" * 1000, CLOSE)
    parts = [request[at : at + 200] for at in range(0, len(request), 200)]
    assert _exchange(address, *parts).endswith(b"x" * 1000)


def test_large_whole_answer_is_complete(address: tuple[str, int]) -> None:
    body = b"y" * 3_000_000
    assert _exchange(address, _request("/whole", body, CLOSE)).endswith(b"\r\n\r\n" + body)
