"""Trailers: headers after a body, which a client may send without an end."""

import re
import socket
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from fastapi import Request
from pydantic import SecretStr

from mistbow.auth.rules import requires
from mistbow.http.protocol import BoundedProtocol
from storage_agent.settings import AgentSettings
from tests.support.http_server import plain_service, served

OWN = "of-the-fog"
HEAD = "GET {path} HTTP/1.1\r\nHost: {host}\r\n{more}\r\n"
CHUNKED = "Transfer-Encoding: chunked\r\n"
LOGIN = f"Authorization: Bearer {OWN}\r\n"


@pytest.fixture
def address(tmp_path: Path) -> Iterator[tuple[str, int]]:
    settings = AgentSettings(home=tmp_path, token=SecretStr(OWN))
    app = plain_service(settings)

    @app.post("/body")
    @requires("ingest")
    async def body(request: Request) -> int:
        return len(await request.body())

    with served(app, http=BoundedProtocol) as url:
        host = urlsplit(url)
        yield "127.0.0.1", host.port or 0


def _send(address: tuple[str, int], request: str) -> bytes:
    with socket.create_connection(address, timeout=10) as client:
        client.sendall(request.encode())
        answer = b""
        while part := client.recv(65536):
            answer += part
    return answer


def test_trailer_is_no_header_of_its_request_or_of_the_next_one(address: tuple[str, int]) -> None:
    host = f"127.0.0.1:{address[1]}"
    with_token = HEAD.format(path="/readyz", host=host, more=CHUNKED + LOGIN)
    last = HEAD.format(path="/readyz", host=host, more="Connection: close\r\n")
    answer = _send(address, with_token + "0\r\nAuthorization: Bearer other\r\n\r\n" + last)
    assert re.findall(rb"HTTP/1.1 (\d+) ", answer) == [b"200", b"401"]
    open_path = HEAD.format(path="/healthz", host=host, more=CHUNKED)
    answer = _send(address, open_path + f"0\r\n{LOGIN}\r\n" + last)
    assert re.findall(rb"HTTP/1.1 (\d+) ", answer) == [b"200", b"401"]


@pytest.mark.parametrize("start", ["0\r\nX: ", "2;x="])
def test_endless_trailer_or_extension_of_a_chunk_closes_the_connection(
    address: tuple[str, int], start: str
) -> None:
    request = HEAD.format(path="/healthz", host=f"127.0.0.1:{address[1]}", more=CHUNKED)
    sent = 0
    with socket.create_connection(address, timeout=10) as client:
        client.sendall((request + start).encode())
        with suppress(ConnectionError):
            for _ in range(400):
                client.sendall(bytes([120]) * 2**16)
                sent += 2**16
    assert sent < 20 * 2**20


def _body(size: int, kind: str) -> str:
    """Return a body of 600 bytes in chunks, with ``size`` bytes at one place that are no data."""
    chunks = [f"258{';x=' + 'y' * size if kind == 'extension' else ''}\r\n{'z' * 600}\r\n0\r\n"]
    if kind == "trailer":
        chunks.append(f"X: {'y' * size}\r\n")
    elif kind == "trailers":
        chunks += [f"X-{number}: {'y' * 992}\r\n" for number in range(size // 1000)]
    return "".join([*chunks, "\r\n"])


@pytest.mark.parametrize("kind", ["extension", "trailer", "trailers"])
@pytest.mark.parametrize(
    ("size", "status"), [(60_000, "200"), (70_000, "431"), (200_000, "431"), (900_000, "431")]
)
def test_parts_of_a_body_that_are_no_data_have_at_most_64_kib(
    address: tuple[str, int], kind: str, size: int, status: str
) -> None:
    more = CHUNKED + LOGIN + "Connection: close\r\n"
    head = HEAD.format(path="/body", host=f"127.0.0.1:{address[1]}", more=more)
    request = head.replace("GET", "POST") + _body(size, kind)
    assert re.findall(rb"HTTP/1.1 (\d+) ", _send(address, request)) == [status.encode()]


def test_extensions_with_data_between_them_have_64_kib_each(address: tuple[str, int]) -> None:
    more = CHUNKED + LOGIN + "Connection: close\r\n"
    head = HEAD.format(path="/body", host=f"127.0.0.1:{address[1]}", more=more)
    chunks = f"1000;x={'y' * 30_000}\r\n{'z' * 4096}\r\n" * 20
    answer = _send(address, head.replace("GET", "POST") + chunks + "0\r\n\r\n")
    assert answer.endswith(b"\r\n\r\n81920")
