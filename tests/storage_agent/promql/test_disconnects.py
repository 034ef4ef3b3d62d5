"""Queries whose clients disconnect: they are ended, so that other queries can run."""

import socket
from urllib.parse import urlencode, urlsplit

import httpx

from tests.support.conditions import eventually

STEPS = 10_000
LONG = {
    # Each step sorts 150,000 samples: the query takes minutes.
    "query": "quantile_over_time(0.5, vector(1)[150000s:1s])",
    "start": 1_795_262_400,
    "end": 1_795_262_400 + STEPS,
    "step": 1,
}


def is_busy(api: httpx.Client) -> bool:
    """Return whether a query finds no turn for half a second."""
    return api.get("query", params={"query": "1", "timeout": "500ms"}).status_code == 503


def test_query_of_disconnected_client_is_ended(url: str, api: httpx.Client) -> None:
    address = urlsplit(url)
    path = f"/api/v1/query_range?{urlencode(LONG)}"
    request = f"GET {path} HTTP/1.1\r\nHost: {address.netloc}\r\n\r\n"
    clients = [socket.create_connection((address.hostname, address.port)) for _ in range(2)]
    for client in clients:
        client.sendall(request.encode())
    eventually(lambda: is_busy(api), what="both queries run")
    for client in clients:
        client.close()
    answer = api.get("query", params={"query": "1"}, timeout=15)
    assert answer.status_code == 200
