"""Trailers: headers after a body, which a client may send without an end."""

import re
import socket
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from pydantic import SecretStr

from mistbow.http.protocol import BoundedProtocol
from mistbow.service import create_service
from storage_agent.settings import AgentSettings
from tests.support.http_server import served

OWN = "of-the-fog"
HEAD = "GET {path} HTTP/1.1\r\nHost: {host}\r\n{more}\r\n"
CHUNKED = "Transfer-Encoding: chunked\r\n"
LOGIN = f"Authorization: Bearer {OWN}\r\n"


async def _ready() -> list[str]:
    return []


@pytest.fixture
def address(tmp_path: Path) -> Iterator[tuple[str, int]]:
    settings = AgentSettings(home=tmp_path, token=SecretStr(OWN))
    with served(create_service("test", settings, readiness=_ready), http=BoundedProtocol) as url:
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
