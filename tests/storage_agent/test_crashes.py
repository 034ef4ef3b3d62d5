"""kill -9, of the agent and of Ignite, while points come in: what was acknowledged is there."""

import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from mistbow.client.agent import AgentClient, Point
from mistbow.clock import system_clock
from mistbow.errors import UnavailableError
from mistbow.ignite.server import IgniteServer
from mistbow.ports import free_ports
from mistbow.streams.schemas import RAW
from tests.support.waiting import eventually


class AgentProcess:
    """``python -m storage_agent`` on a port that it keeps."""

    def __init__(self, home: Path, ignite: IgniteServer) -> None:
        [port] = free_ports(1)
        self.url = f"http://127.0.0.1:{port}"
        self._environment = {
            **os.environ,
            "MISTBOW_HOME": str(home),
            "MISTBOW_NODE": "n1",
            "MISTBOW_AGENT_PORT": str(port),
            "MISTBOW_IGNITE_PORT": str(ignite.port),
        }
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "storage_agent"],
            env=self._environment,
            stderr=subprocess.DEVNULL,
        )
        eventually(self._ready, what="the agent is ready")

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def ends(self) -> bool:
        return self._process is not None and self._process.poll() is not None

    def _ready(self) -> bool:
        try:
            return httpx.get(f"{self.url}/readyz").is_success
        except httpx.TransportError as error:
            raise AssertionError(str(error)) from error


class Load:
    """Threads that put numbered points, each again with the same key until it is acknowledged."""

    def __init__(self, url: str, writers: int = 3) -> None:
        self.acknowledged = 0
        self._url = url
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._put, args=(k,)) for k in range(writers)]
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(60)

    def _put(self, writer: int) -> None:
        client = AgentClient(self._url)
        number = 0
        while not self._stop.is_set():
            point = Point("m", f"e{writer}", system_clock(), float(number))
            while True:
                try:
                    client.put([point], idempotency_key=f"{writer}/{number}")
                    break
                except UnavailableError:
                    continue
            number += 1
            self.acknowledged += 1
        client.close()

    def progress(self, by: int = 20) -> None:
        goal = self.acknowledged + by
        eventually(lambda: self.acknowledged >= goal, timeout=60, what="more acknowledged points")


@pytest.fixture
def agent(ignite: IgniteServer, tmp_path: Path) -> Iterator[AgentProcess]:
    agent = AgentProcess(tmp_path, ignite)
    agent.start()
    yield agent
    agent.kill()


@contextmanager
def under_load(agent: AgentProcess) -> Iterator[Load]:
    load = Load(agent.url)
    try:
        yield load
    finally:
        load.stop()


def check(agent: AgentProcess, acknowledged: int) -> None:
    """Every point of every writer is there once, in order, in raw and for /get alike."""
    client = AgentClient(agent.url)
    table = client.read(RAW).table
    seen = Counter(zip(table["entity"].to_pylist(), table["value"].to_pylist(), strict=True))
    assert set(seen.values()) == {1}
    assert len(seen) == acknowledged
    latest = {s.entity: s.values[0].value for s in client.get()[0].data}
    for entity, value in latest.items():
        assert {(entity, float(i)) for i in range(int(value) + 1)} <= set(seen)
    counts = Counter(entity for entity, _ in seen)
    assert counts == {entity: int(value) + 1 for entity, value in latest.items()}
    stored = {s.entity: len(s.values) for s in client.get(latest=False)[0].data}
    assert counts == stored
    client.close()


def test_the_agent_is_killed(agent: AgentProcess) -> None:
    with under_load(agent) as load:
        for _ in range(3):
            load.progress()
            agent.kill()
            agent.start()
        load.progress()
    check(agent, load.acknowledged)


def test_ignite_is_killed(agent: AgentProcess, ignite: IgniteServer) -> None:
    with under_load(agent) as load:
        for _ in range(2):
            load.progress()
            ignite.kill()
            ignite.start()
        load.progress()
    check(agent, load.acknowledged)


def test_a_silent_ignite_is_not_awaited_forever(agent: AgentProcess, ignite: IgniteServer) -> None:
    assert ignite.pid is not None
    client = AgentClient(agent.url)
    os.kill(ignite.pid, signal.SIGSTOP)
    try:
        body = {"monitoring": [{"entityID": "e", "metricID": "m", "val": 1, "timestamp": 1}]}
        headers = {"Idempotency-Key": "once"}
        response = httpx.post(f"{agent.url}/put", json=body, headers=headers, timeout=20)
        assert response.status_code == 503
        assert response.elapsed.total_seconds() < 10
    finally:
        os.kill(ignite.pid, signal.SIGCONT)
    # The put that was given up may have landed; a repeat does not double it.
    again = httpx.post(f"{agent.url}/put", json=body, headers=headers, timeout=20)
    assert again.status_code == 200
    assert client.read(RAW).table.num_rows == 1
    client.close()


def test_without_ignite_the_agent_says_so(agent: AgentProcess, ignite: IgniteServer) -> None:
    client = AgentClient(agent.url)
    client.put([Point("m", "e", system_clock(), 1.0)])
    ignite.kill()
    try:
        body = {"monitoring": [{"entityID": "e", "metricID": "m", "val": 2, "timestamp": 1}]}
        response = httpx.post(f"{agent.url}/put", json=body, timeout=20)
        assert response.status_code == 503
        assert response.headers["Retry-After"]
        assert response.elapsed.total_seconds() < 10
        assert client.get("m")[0].data[0].values[0].value == 1.0
        assert "Ignite" in httpx.get(f"{agent.url}/readyz").json()["waiting_for"][0]
        assert httpx.get(f"{agent.url}/healthz").is_success
    finally:
        ignite.start()
    eventually(lambda: httpx.get(f"{agent.url}/readyz").is_success)
    client.put([Point("m", "e", system_clock(), 3.0)])
    assert client.get("m")[0].data[0].values[0].value == 3.0
    client.close()


@pytest.mark.timeout(180)
def test_an_ignite_that_forgot_everything_is_begun_again(tmp_path: Path) -> None:
    with (
        IgniteServer(tmp_path / "ignite", durability="memory") as forgetful,
        contextlib.ExitStack() as ending,
    ):
        agent = AgentProcess(tmp_path, forgetful)
        ending.callback(agent.kill)
        agent.start()
        client = AgentClient(agent.url)
        ending.callback(client.close)
        for number in range(3):
            client.put([Point("m", "e", system_clock(), number)])
        forgetful.kill()
        forgetful.start()
        # Nothing is acknowledged behind the gap; whoever keeps the agent starts it again.
        body = {"monitoring": [{"entityID": "e", "metricID": "m", "val": 9, "timestamp": 1}]}
        with contextlib.suppress(httpx.TransportError):
            assert httpx.post(f"{agent.url}/put", json=body, timeout=20).status_code == 503
        eventually(agent.ends, what="the agent ends")
        for begin in range(2):
            agent.start()
            assert client.read(RAW).table["value"].to_pylist() == [10.0, 11.0][:begin]
            client.put([Point("m", "e", system_clock(), 10.0 + begin)])
            agent.kill()
