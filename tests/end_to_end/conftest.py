import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from tests.support.chromium import playwright_chromium
from tests.support.conditions import eventually
from tests.support.console_page import SCREENSHOTS, SECOND_WORKER, WAIT_MS, Console, opened
from tests.support.services import Service, service
from tests.support.suite import Suite, running_suite

_HOST_INSIGHTS = Path(__file__).parents[2] / "examples" / "host.insights"


@pytest.fixture(scope="package")
def suite(processes: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Suite]:
    with running_suite(tmp_path_factory.mktemp("suite"), _HOST_INSIGHTS) as running:
        yield running


@pytest.fixture(scope="module")
def city(suite: Suite) -> Iterator[None]:
    """Buses that send points."""
    argv = [sys.executable, "-m", "command_line.app", "city", suite.url("agent")]
    argv += ["--seconds", "900", "--rate", "100", "--vehicles", "30"]
    with subprocess.Popen(argv, stdout=subprocess.DEVNULL) as process:
        eventually(lambda: suite.enabler.metrics(metric="delay").metrics, what="the buses send")
        if SCREENSHOTS is not None:
            eventually(lambda: are_late(suite), what="the buses are late", timeout=180, pause=2)
        yield
        process.kill()


def are_late(suite: Suite) -> bool:
    """Return whether the pictures show a minute of different delays."""
    query = "SELECT count(DISTINCT ts // 5000) FROM historical WHERE metric = 'delay' AND value > 9"
    return bool(suite.enabler.sql(query)["rows"][0][0] >= 12)


@pytest.fixture(scope="module")
def second_worker(suite: Suite, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A second worker of the site, which starts beside the first tests."""
    home = tmp_path_factory.mktemp("second")
    with service(
        "analytics_worker", "worker_port", home=home, node=SECOND_WORKER,
        agent_url=suite.url("agent"), ready=False,
    ) as worker:  # fmt: skip
        yield worker


@pytest.fixture(scope="module")
def browser(processes: None) -> Iterator[Browser]:
    expect.set_options(timeout=WAIT_MS)
    with playwright_chromium() as browser:
        yield browser


@pytest.fixture(scope="module")
def console(
    browser: Browser, suite: Suite, city: None, second_worker: Service
) -> Iterator[Console]:
    with opened(browser, suite) as console:
        yield console
