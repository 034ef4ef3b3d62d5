import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from tests.support.chromium import playwright_chromium
from tests.support.composed_fog import Container, Fog, Scan, healthy_members, scan_all
from tests.support.conditions import eventually
from tests.support.console_hostile import (
    HOSTILE,
    HOSTILE_QUERY,
    has_hostile_result,
    put_hostile_point,
)
from tests.support.console_page import MEANS, SCREENSHOTS, SECOND_WORKER, WAIT_MS, Console, opened
from tests.support.console_story import WRITTEN, kill_after_pictures, span_of, times_of
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
        eventually(lambda: len(suite.enabler.sql(MEANS)["rows"]) > 2, what="seconds have points")
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


@pytest.fixture
def console(
    browser: Browser, suite: Suite, city: None, second_worker: Service
) -> Iterator[Console]:
    """The console in a browser without a history, for one test."""
    with opened(browser, suite) as console:
        yield console


@pytest.fixture
def worst(suite: Suite, city: None) -> str:
    """A deployment of the insight ``worst`` with results: that of an earlier test, or a new one."""
    for earlier in suite.enabler.list():
        if "worst" in {each.name for each in earlier.insights}:
            return earlier.deployment_id
    deployed = suite.enabler.submit(WRITTEN.replace("MAXX", "MAX")).deployment_id
    eventually(
        lambda: span_of(suite, deployed, "west") > 0, timeout=120, what="the insight has results"
    )
    return deployed


@pytest.fixture(scope="module")
def moved(suite: Suite, second_worker: Service) -> Iterator[str]:
    """The group of an insight that the second worker computes."""
    second_worker.wait()
    eventually(lambda: len(suite.enabler.fog().nodes) == 2, what="both workers are announced")
    site = suite.agent.fabric().site
    # Of the workers of the site, at most one: the first in the order of names.
    query = f'moved = COMPUTE AVG(delay) EVERY 1 SECOND WITH PLACEMENT_ON site="{site}" 1'
    deployed = suite.enabler.submit(query, name="moved").deployment_id
    [group] = {each.group for each in suite.enabler.show(deployed).insights}
    yield str(group)
    suite.enabler.delete(deployed)


@pytest.fixture
def times(suite: Suite, moved: str, second_worker: Service) -> tuple[int, int]:
    """When a fragment came to the second worker, and when it left it, since the worker was killed.

    An earlier test may have killed the worker.
    """
    if times_of(suite, moved) is None:
        kill_after_pictures(suite, moved, second_worker)
    return eventually(lambda: times_of(suite, moved), what="the history has the move")


@pytest.fixture(scope="module")
def hostile(suite: Suite) -> Iterator[str]:
    """A deployment over the hostile metric, with a result whose key is hostile."""
    put_hostile_point(suite)
    eventually(lambda: suite.enabler.metrics(metric=HOSTILE).metrics, what="the metric is known")
    deployed = suite.enabler.submit(HOSTILE_QUERY, name=HOSTILE[:200]).deployment_id
    eventually(
        lambda: has_hostile_result(suite, deployed), timeout=120, what="a result has a hostile key"
    )
    yield deployed
    suite.enabler.delete(deployed)


@pytest.fixture(scope="module")
def members(fog: Fog) -> dict[str, Container]:
    """The containers of the fog that the module has started by compose: service -> container."""
    return healthy_members(fog)


@pytest.fixture(scope="module")
def scans(members: dict[str, Container]) -> list[Scan]:
    return scan_all(members)
