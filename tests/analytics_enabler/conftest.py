"""Enablers with a real storage agent and Ignite, with and without workers with Spark."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
import structlog

from analytics.client.enabler import EnablerClient
from analytics_enabler.main import create_app
from analytics_enabler.settings import EnablerSettings
from ignite_server.server import IgniteServer
from mistbow.client.agent import AgentClient
from storage_agent.settings import AgentSettings
from tests.analytics_enabler.live_site import LiveSite, running_live_site
from tests.analytics_enabler.spark_worker import MakeWorker, SparkWorker, start_shared_session
from tests.support.agents import running_agent
from tests.support.conditions import eventually
from tests.support.http_server import served
from tests.support.ignite import empty
from tests.support.operators import install_example_operators

StartEnabler = Callable[[], AbstractContextManager[str]]


@pytest.fixture(scope="session", autouse=True)
def logs_kept_off_stdout() -> None:
    """Let pytest capture the logs of services, so that stdout has the output of commands only."""
    structlog.configure(logger_factory=structlog.stdlib.LoggerFactory())


@contextmanager
def _running_ignite(folders: pytest.TempPathFactory) -> Iterator[IgniteServer]:
    with IgniteServer(folders.mktemp("ignite"), durability="log") as server:
        yield server


@pytest.fixture(scope="session")
def ignite_server(
    processes: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[IgniteServer]:
    with _running_ignite(tmp_path_factory) as server:
        yield server


@pytest.fixture(scope="session")
def other_ignite(
    processes: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[IgniteServer]:
    """The Ignite of a second site."""
    with _running_ignite(tmp_path_factory) as server:
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


@pytest.fixture(scope="session")
def make_worker(processes: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[MakeWorker]:
    """Yield a function that makes a worker with a name.

    All workers share a Spark session, since its start takes longer than most tests.
    """
    home = tmp_path_factory.mktemp("workers")
    with pytest.MonkeyPatch.context() as patch:
        # Spark's processes get the environment that it is started with.
        install_example_operators(tmp_path_factory.mktemp("operators"), patch)
        session = start_shared_session()
    yield lambda name: SparkWorker(session, home, name)
    session.stop()


@pytest.fixture
def worker(make_worker: MakeWorker, agent_url: str) -> Iterator[SparkWorker]:
    """Run the worker of the site; yield the worker."""
    with make_worker("w1") as worker:
        worker.start(agent_url)
        yield worker


@contextmanager
def running_enabler(agent_url: str, home: Path) -> Iterator[str]:
    """Serve an enabler; yield its URL once it is ready."""
    settings = EnablerSettings(home=home, agent_url=agent_url)
    with served(create_app(settings)) as url:
        eventually(lambda: httpx.get(f"{url}/readyz").is_success, what="the enabler is ready")
        yield url


@pytest.fixture
def start_enabler(agent_url: str, tmp_path: Path) -> StartEnabler:
    """Return a function that starts an enabler at the site."""
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
    """Yield a client of an enabler at a site without a worker."""
    with running_enabler(agent_url, tmp_path) as url:
        client = EnablerClient(url)
        yield client
        client.close()


@dataclass(frozen=True, slots=True)
class SharedSite:
    """The URLs of the agent and the enabler that all tests of a module use.

    Each test makes deployments of its own.
    """

    agent: str
    enabler: str


def active(site: SharedSite) -> SharedSite:
    """Wait until the enabler of a site is active, after an enabler that has fenced it."""
    url = f"{site.enabler}/api/insights"
    eventually(lambda: httpx.get(url).is_success, what="the enabler is active")
    return site


@pytest.fixture(scope="module")
def shared_site(
    ignite_server: IgniteServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SharedSite]:
    """Yield a site without a worker, whose tests write results themselves."""
    home = tmp_path_factory.mktemp("site")
    empty(ignite_server)
    settings = AgentSettings(home=home, node="n1", ignite_port=ignite_server.port)
    with (
        running_agent(settings) as agent_url,
        running_enabler(agent_url, home) as enabler_url,
    ):
        yield SharedSite(agent_url, enabler_url)


@pytest.fixture(scope="session")
def live_site(processes: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveSite]:
    """Yield a site with a worker with Spark, which all tests of a process share.

    A test that uses it deletes its deployments.
    """
    with running_live_site(tmp_path_factory.mktemp("live")) as site:
        yield site


@pytest.fixture
def live_enabler_url(live_site: LiveSite) -> Iterator[str]:
    """Yield the URL of an enabler of the live site; delete all deployments after the test."""
    with running_enabler(live_site.agent_url, live_site.home) as url:
        yield url
        live_site.clear(url)


@pytest.fixture
def live_enabler(live_enabler_url: str) -> Iterator[EnablerClient]:
    client = EnablerClient(live_enabler_url)
    yield client
    client.close()


@pytest.fixture(scope="module")
def shared_live_site(live_site: LiveSite) -> Iterator[SharedSite]:
    """Yield the live site with an enabler for all tests of a module.

    A test may start another enabler of the site, which fences this one until it has ended.
    """
    with running_enabler(live_site.agent_url, live_site.home) as enabler_url:
        yield SharedSite(live_site.agent_url, enabler_url)
    # The last order of an enabler that has ended may have started a fragment after all. A fenced
    # enabler does not stop it, only a new one does.
    with running_enabler(live_site.agent_url, live_site.home) as enabler_url:
        live_site.clear(enabler_url)
