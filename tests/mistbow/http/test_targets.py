"""Requests whose request line names an address, as requests to a proxy do, or without a host."""

import socket
from urllib.parse import urlsplit

import pytest

from mistbow.http.protocol import BoundedProtocol
from storage_agent.settings import AgentSettings
from tests.support.http_server import plain_service, served


def answer_to(head: str) -> bytes:
    """Return the answer of a service to a request; ``OWN`` in the head is its address."""
    app = plain_service(AgentSettings())
    with served(app, http=BoundedProtocol) as url:
        own = urlsplit(url)
        with socket.create_connection((own.hostname, own.port), timeout=10) as client:
            client.sendall(head.replace("OWN", own.netloc).encode())
            answer = b""
            while part := client.recv(65536):
                answer += part
    return answer


@pytest.mark.parametrize(
    ("target", "host", "status"),
    [
        ("/healthz", "OWN", 200),
        ("http://OWN/healthz", "OWN", 200),
        ("http://evil.example/healthz", "OWN", 400),
        ("http://OWN@evil.example/healthz", "OWN", 400),
        ("http://evil.example?/healthz", "OWN", 400),
        ("http://OWN/healthz", "evil.example", 400),
        ("http://evil.example/healthz", "evil.example", 403),
    ],
)
def test_address_in_the_request_line_must_be_that_of_host(
    target: str, host: str, status: int
) -> None:
    answer = answer_to(f"GET {target} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n")
    assert answer.startswith(f"HTTP/1.1 {status} ".encode()), answer


@pytest.mark.parametrize(("version", "status"), [("1.1", 400), ("1.0", 200)])
def test_only_old_requests_may_lack_a_host(version: str, status: int) -> None:
    answer = answer_to(f"GET /healthz HTTP/{version}\r\nConnection: close\r\n\r\n")
    assert answer.startswith(f"HTTP/1.1 {status} ".encode()), answer
