"""Enablers over a real storage agent with a real Ignite; workers as a test needs them."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
import structlog

from analytics_enabler.main import create_app
from mistbow.client.agent import AgentClient
from mistbow.client.enabler import EnablerClient
from mistbow.ignite.server import IgniteServer
from mistbow.settings import AgentSettings, EnablerSettings
from tests.analytics_enabler.recording_worker import RecordingWorker
from tests.support.agents import running_agent
from tests.support.ignite import empty
from tests.support.serving import served
from tests.support.waiting import eventually

StartEnabler = Callable[[], AbstractContextManager[str]]


@pytest.fixture(scope="session", autouse=True)
def logs_kept_off_stdout() -> None:
    """Let pytest capture what the services log: the command's own output is looked at."""
    structlog.configure(logger_factory=structlog.stdlib.LoggerFactory())


@pytest.fixture(scope="session")
def ignite_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[IgniteServer]:
    with IgniteServer(tmp_path_factory.mktemp("ignite"), durability="log") as server:
        yield server


@pytest.fixture
def agent_settings(ignite_server: IgniteServer, tmp_path: Path) -> AgentSettings:
    empty(ignite_server)
    return AgentSettings(home=tmp_path, node="n1", ignite_port=ignite_server.port)


@pytest.fixture
def agent_url(agent_settings: AgentSettings) -> Iterator[str]:
    with running_agent(agent_settings) as url:
        yield url


@pytest.fixture
def agent(agent_url: str) -> Iterator[AgentClient]:
    client = AgentClient(agent_url)
    yield client
    client.close()


@pytest.fixture
def worker() -> RecordingWorker:
    return RecordingWorker()


@pytest.fixture
def announced(worker: RecordingWorker, agent_url: str) -> Iterator[RecordingWorker]:
    """The worker once the agent knows of it."""
    with worker.running(agent_url):
        yield worker


@contextmanager
def running_enabler(agent_url: str, home: Path) -> Iterator[str]:
    """Serve an enabler, and yield its URL once it is ready."""
    settings = EnablerSettings(home=home, agent_url=agent_url)
    with served(create_app(settings)) as url:
        eventually(lambda: httpx.get(f"{url}/readyz").is_success, what="the enabler is ready")
        yield url


@pytest.fixture
def start_enabler(agent_url: str, announced: RecordingWorker, tmp_path: Path) -> StartEnabler:
    """Return what starts an enabler of the test's site, where a worker is announced."""
    return lambda: running_enabler(agent_url, tmp_path)


@pytest.fixture
def enabler_url(start_enabler: StartEnabler) -> Iterator[str]:
    with start_enabler() as url:
        yield url


@pytest.fixture
def enabler(enabler_url: str) -> Iterator[EnablerClient]:
    client = EnablerClient(enabler_url)
    yield client
    client.close()


@pytest.fixture
def lone_enabler(agent_url: str, tmp_path: Path) -> Iterator[EnablerClient]:
    """An enabler without a worker."""
    with running_enabler(agent_url, tmp_path) as url:
        client = EnablerClient(url)
        yield client
        client.close()


@dataclass(frozen=True, slots=True)
class SharedSite:
    """The URLs of services that the tests of a module share: each brings its own deployments."""

    agent: str
    enabler: str


@pytest.fixture(scope="module")
def shared_site(
    ignite_server: IgniteServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SharedSite]:
    home = tmp_path_factory.mktemp("site")
    empty(ignite_server)
    settings = AgentSettings(home=home, node="n1", ignite_port=ignite_server.port)
    with (
        running_agent(settings) as agent_url,
        RecordingWorker().running(agent_url),
        running_enabler(agent_url, home) as enabler_url,
    ):
        yield SharedSite(agent_url, enabler_url)
