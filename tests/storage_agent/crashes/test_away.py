"""The agent while Ignite hangs or is stopped, and after Ignite has lost its data."""

import asyncio
import contextlib
import functools
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import psutil
import pytest

from ignite_server.server import IgniteServer
from mistbow.auth.rules import requires
from mistbow.client import AgentClient, Point
from mistbow.clock import system_clock
from mistbow.streams.schemas import RAW
from storage_agent.main import create_app
from storage_agent.settings import AgentSettings
from tests.storage_agent.crashes.limits import FROZEN_S
from tests.storage_agent.crashes.load import Load
from tests.storage_agent.crashes.processes import AgentProcess
from tests.support.agents import running_agent
from tests.support.conditions import eventually
from tests.support.http_server import served
from tests.support.ignite import frozen

_ASKING = 8
_PATHS = ("/put", "/get", "/readyz")
_UNHURRIED_S = 60
"""The shortest duration (s) of a freeze after which the test also checks response times."""

# Five seconds for a commit, and what a busy machine adds.
_USUAL_S = 8.0
_MAX_PAUSE_S = 12.0
_SOCKETS = 8
_TASKS = 100
_BODY = {"monitoring": [{"entityID": "e", "metricID": "m", "val": 1, "timestamp": 1}]}


@dataclass(frozen=True)
class TimedAnswer:
    """The answer to a request of a thread."""

    thread: int
    path: str
    status: int
    seconds: float
    retry_after: str | None


class RequestThreads:
    """Threads that each send /put, /get and /readyz, one request after the other."""

    def __init__(self, url: str) -> None:
        self.answers: list[TimedAnswer] = []
        self._url = url
        self._stopped = threading.Event()
        self._threads = [threading.Thread(target=self._ask, daemon=True) for _ in range(_ASKING)]

    def __enter__(self) -> "RequestThreads":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        for thread in self._threads:
            thread.join(30)

    def are_all_answered(self) -> bool:
        """Return whether each thread has received an answer from each path."""
        return len({(each.thread, each.path) for each in self.answers}) == _ASKING * len(_PATHS)

    def _ask(self) -> None:
        requests = [("POST", "/put", _BODY), ("POST", "/get", {}), ("GET", "/readyz", None)]
        with httpx.Client(base_url=self._url, timeout=60) as client:
            while not self._stopped.wait(0.05):
                for method, path, body in requests:
                    answer = client.request(method, path, json=body)
                    seconds = answer.elapsed.total_seconds()
                    after = answer.headers.get("Retry-After")
                    self.answers.append(
                        TimedAnswer(threading.get_ident(), path, answer.status_code, seconds, after)
                    )


@requires("read")
async def tasks() -> int:
    """Return the number of asyncio tasks of the agent."""
    return len(asyncio.all_tasks())


def sockets_to(ignite: IgniteServer) -> int:
    connections = psutil.Process().net_connections("tcp")
    return sum(bool(each.raddr) and each.raddr.port == ignite.port for each in connections)


@pytest.fixture
def refusing(settings: AgentSettings) -> AgentSettings:
    return settings.model_copy(update={"when_away": "refuse"})


@pytest.fixture
def url(refusing: AgentSettings) -> Iterator[str]:
    with running_agent(refusing) as url:
        yield url


@pytest.mark.timeout(120 + 2 * FROZEN_S)
def test_frozen_ignite_does_not_delay_requests(
    refusing: AgentSettings, ignite: IgniteServer
) -> None:
    app = create_app(refusing)
    app.add_api_route("/tasks", tasks)
    with served(app) as url:
        eventually(lambda: httpx.get(f"{url}/readyz").is_success)
        with Load(url, points=4) as load:
            load.progress()
            before = httpx.get(f"{url}/tasks").json()
            with frozen(ignite), RequestThreads(url) as asking:
                end = time.monotonic() + FROZEN_S
                # However slow the machine: who waits for an Ignite that is frozen is answered.
                while time.monotonic() < end or not asking.are_all_answered():
                    assert sockets_to(ignite) <= _SOCKETS
                    assert httpx.get(f"{url}/tasks", timeout=60).json() <= before + _TASKS
                    time.sleep(0.25)
            load.progress()
        load.check()
    for path in _PATHS:
        answers = [answer for answer in asking.answers if answer.path == path]
        taken = sorted(answer.seconds for answer in answers)
        usual = taken[len(taken) * 99 // 100]
        print(f"{path}: {len(taken)} answers, p99 {usual:.2f} s, longest {taken[-1]:.2f} s")
        if FROZEN_S >= _UNHURRIED_S:
            assert usual <= _USUAL_S
            assert taken[-1] <= _MAX_PAUSE_S
        assert {answer.status for answer in answers} <= {200, 503}
    refused = [each for each in asking.answers if (each.path, each.status) == ("/put", 503)]
    assert refused
    assert all(each.retry_after for each in refused)


def test_timed_out_put_is_stored_once(url: str, ignite: IgniteServer) -> None:
    headers = {"Idempotency-Key": "once"}
    with frozen(ignite):
        given_up = httpx.post(f"{url}/put", json=_BODY, headers=headers, timeout=60)
        assert given_up.status_code == 503
    # It may have landed.
    again = functools.partial(httpx.post, f"{url}/put", json=_BODY, headers=headers)
    eventually(lambda: again(timeout=60).is_success)
    client = AgentClient(url)
    assert client.read(RAW).table.num_rows == 1
    client.close()


def test_agent_without_ignite_reports_it(url: str, ignite: IgniteServer) -> None:
    client = AgentClient(url)
    client.put([Point("m", "e", system_clock(), 1.0)])
    ignite.kill()
    try:
        response = httpx.post(f"{url}/put", json=_BODY, timeout=60)
        assert response.status_code == 503
        assert response.headers["Retry-After"]
        assert client.get("m")[0].data[0].values[0].value == 1.0
        assert "Ignite" in httpx.get(f"{url}/readyz").json()["waiting_for"][0]
        assert httpx.get(f"{url}/healthz").is_success
    finally:
        ignite.start()
    eventually(lambda: httpx.get(f"{url}/readyz").is_success)
    client.put([Point("m", "e", system_clock(), 3.0)])
    assert client.get("m")[0].data[0].values[0].value == 3.0
    client.close()


@pytest.mark.soak
@pytest.mark.usefixtures("processes")
def test_agent_restarts_after_ignite_lost_its_content(tmp_path: Path) -> None:
    with (
        IgniteServer(tmp_path / "ignite", durability="memory") as forgetful,
        contextlib.ExitStack() as ending,
    ):
        agent = AgentProcess(tmp_path, forgetful, when_away="refuse")
        ending.callback(agent.kill)
        agent.start()
        client = AgentClient(agent.url)
        ending.callback(client.close)
        for number in range(3):
            client.put([Point("m", "e", system_clock(), number)])
        forgetful.kill()
        forgetful.start()
        # No write is acknowledged behind the gap; the supervisor starts the agent again.
        with contextlib.suppress(httpx.TransportError):
            answer = httpx.post(f"{agent.url}/put", json=_BODY, timeout=60)
            assert answer.status_code == 503
        eventually(agent.ends, what="the agent ends")
        agent.start()
        assert client.read(RAW).table.num_rows == 0
        client.put([Point("m", "e", system_clock(), 10.0)])
        assert client.read(RAW).table["value"].to_pylist() == [10.0]
