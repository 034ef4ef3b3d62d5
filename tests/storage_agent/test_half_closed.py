"""A sender that closes its sending side after a /put, as ``nc -N`` does."""

import json
import socket
from urllib.parse import urlsplit

import httpx

from mistbow.client import AgentClient
from mistbow.http.protocol import BoundedProtocol
from storage_agent.main import create_app
from storage_agent.settings import AgentSettings
from tests.support.conditions import eventually
from tests.support.http_server import served


def test_put_of_a_half_closed_connection_is_answered_after_the_points_are_stored(
    settings: AgentSettings,
) -> None:
    point = {"metricID": "m", "entityID": "e", "val": 1, "timestamp": 1_795_262_400_000}
    body = json.dumps({"monitoring": [point]}).encode()
    head = f"POST /put HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n"
    with served(create_app(settings), http=BoundedProtocol) as url:
        client = AgentClient(url, attempts=1)
        eventually(lambda: httpx.get(f"{url}/readyz").is_success, what="the agent is ready")
        address = urlsplit(url)
        with socket.create_connection((address.hostname, address.port), timeout=10) as connection:
            connection.sendall(head.encode() + body)
            connection.shutdown(socket.SHUT_WR)
            answer = b"".join(iter(lambda: connection.recv(65536), b""))
        assert answer.startswith(b"HTTP/1.1 200 OK")
        assert client.get("m")[0].data[0].entity == "e"
        client.close()
