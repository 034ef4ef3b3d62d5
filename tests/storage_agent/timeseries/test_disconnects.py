"""Reads whose clients disconnect: they are ended, so that they delay no other request."""

import json
import socket
import struct
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

import httpx
import psutil
import pytest

from mistbow.client.agent import AgentClient
from mistbow.client.agent_model import Point
from storage_agent.http.accept import ARROW
from storage_agent.timeseries import history, series_order
from tests.storage_agent.conftest import ManualClock
from tests.support.conditions import eventually

_CLIENTS = 20
_THREADS = 2
_SERIES = 20_000
_RESET = struct.pack("ii", 1, 0)
"""The option by which a closed socket is reset: the agent sees its end at once."""


class Gate:
    """Lets threads wait before a function until it is opened; ``calls``: their number."""

    def __init__(self) -> None:
        self.calls = 0
        self._opened = threading.Event()

    def before(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def wait(*arguments: Any) -> Any:
            self.calls += 1
            assert self._opened.wait(60)
            return function(*arguments)

        return wait

    def open(self) -> None:
        self._opened.set()


@pytest.fixture
def filled(url: str, clock: ManualClock) -> str:
    """Return the URL of an agent with many series."""
    client = AgentClient(url)
    for begin in range(0, _SERIES, 5000):
        numbers = range(begin, begin + 5000)
        client.put([Point(f"m{n % 10}", f"e{n // 10}", clock.now, 1.0, group="g") for n in numbers])
    client.close()
    return url


@pytest.fixture
def gate() -> Iterator[Gate]:
    gate = Gate()
    yield gate
    gate.open()


def connect(
    url: str, method: str, path: str, body: Mapping[str, Any], accept: str
) -> socket.socket:
    """Return a connection of a client that has sent a request."""
    address = urlsplit(url)
    content = json.dumps(body)
    client = socket.create_connection((address.hostname, address.port))
    client.sendall(
        f"{method} {path} HTTP/1.1\r\nHost: {address.netloc}\r\nAccept: {accept}\r\n"
        f"Content-Length: {len(content)}\r\n\r\n{content}".encode()
    )
    return client


def count_connections(url: str) -> int:
    """Return the number of the connections to a server in this process."""
    found = psutil.Process().net_connections()
    port = urlsplit(url).port
    return sum(each.laddr.port == port and bool(each.raddr) for each in found)


@pytest.mark.parametrize(
    ("method", "path", "body", "accept"),
    [
        ("POST", "/get", {"latest": False}, "*/*"),
        ("POST", "/get?site=n1", {"latest": False}, "*/*"),
        ("POST", "/get", {"latest": False}, ARROW),
        ("POST", "/query", {"agg": "avg", "latest": False, "groupName": "g"}, "*/*"),
        ("POST", "/list", {"limit": 100_000}, "*/*"),
        ("DELETE", "/monitoring?dry_run=true", {"groupName": "g"}, "*/*"),
    ],
)
def test_read_of_disconnected_client_is_ended(
    filled: str,
    gate: Gate,
    monkeypatch: pytest.MonkeyPatch,
    method: str,
    path: str,
    body: Mapping[str, Any],
    accept: str,
) -> None:
    apply = gate.before(history._PointFilter.apply)
    monkeypatch.setattr(history._PointFilter, "apply", lambda *arguments: apply(*arguments))
    monkeypatch.setattr(series_order, "_rank", gate.before(series_order._rank))
    clients = [connect(filled, method, path, body, accept) for _ in range(_CLIENTS)]
    eventually(lambda: gate.calls == _THREADS, what="reads occupy all threads")
    eventually(lambda: count_connections(filled) == _CLIENTS, what="all clients have connected")
    assert httpx.get(f"{filled}/healthz").is_success
    for client in clients:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        client.close()
    eventually(lambda: count_connections(filled) == 0, what="all clients have disconnected")
    assert httpx.get(f"{filled}/healthz").is_success
    gate.open()
    assert httpx.post(f"{filled}/query", json={"agg": "avg", "latest": False}).is_success
    assert gate.calls == _THREADS + 1, "no other read has continued"


def test_read_of_disconnected_client_is_counted_with_its_own_status(
    filled: str, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ended() -> float:
        name = 'mistbow_agent_requests_total{path="/get",status="499"} '
        lines = httpx.get(f"{filled}/metrics").text.splitlines()
        return sum(float(line.removeprefix(name)) for line in lines if line.startswith(name))

    before = ended()
    apply = gate.before(history._PointFilter.apply)
    monkeypatch.setattr(history._PointFilter, "apply", lambda *arguments: apply(*arguments))
    client = connect(filled, "POST", "/get", {"latest": False}, "*/*")
    eventually(lambda: gate.calls == 1, what="the read has begun")
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
    client.close()
    eventually(lambda: ended() == before + 1, what="the read is ended")
