"""An enabler that another one of its site has fenced, and that takes over again."""

import os
import signal
import time
from collections import Counter
from pathlib import Path

import httpx
import pytest

from analytics.client.enabler import EnablerClient
from analytics_enabler.domains.role import GRACE_S
from analytics_enabler.main import create_app
from analytics_enabler.settings import EnablerSettings
from ignite_server.ports import free_ports
from mistbow.client.agent import AgentClient
from mistbow.fabric import Enabler
from tests.analytics_enabler.domains.support import ids
from tests.analytics_enabler.spark_worker import TEST_TIMEOUT_S, SparkWorker, eventually
from tests.analytics_enabler.support import without_digest
from tests.support.http_server import served
from tests.support.services import service

FIRST = "first = COMPUTE AVG(cpu, 2 s) EVERY 1 s"
GONE = "gone = COMPUTE MAX(cpu, 2 s) EVERY 1 s"
SECOND = "second = COMPUTE MIN(cpu, 2 s) EVERY 1 s"
THIRD = "third = COMPUTE SUM(cpu, 2 s) EVERY 1 s"

LIMIT_S = GRACE_S + 4.0
"""The limit of a takeover after the end of the active enabler, on a busy machine."""


def announced(agent: AgentClient) -> Enabler | None:
    """Return the enabler that the site announces."""
    (site,) = agent.fabric().sites
    return site.enablers[0] if site.enablers else None


@pytest.mark.timeout(TEST_TIMEOUT_S)
def test_fenced_enabler_takes_over_again_with_the_state_of_its_successor(
    agent: AgentClient, agent_url: str, worker: SparkWorker, tmp_path: Path
) -> None:
    home = {"agent_url": agent_url, "home": tmp_path / "paused"}
    with service("analytics_enabler", "enabler_port", **home) as process:
        paused = EnablerClient(process.url)
        first, gone = (paused.submit(text).deployment_id for text in (FIRST, GONE))
        eventually(
            lambda: (
                {*map(without_digest, worker.insights)} == {f"{first}/first/1", f"{gone}/gone/1"}
            )
        )
        os.kill(process.pid, signal.SIGSTOP)
        try:
            [port] = free_ports(1)
            settings = EnablerSettings(
                home=tmp_path, agent_url=agent_url, enabler_port=port,
                enabler_url=f"http://127.0.0.1:{port}",
            )  # fmt: skip
            with served(create_app(settings), port) as url:
                eventually(lambda: httpx.get(f"{url}/readyz").is_success, what="the successor")
                successor = EnablerClient(url)
                successor.delete(gone)
                second = successor.submit(SECOND).deployment_id
                both = {f"{first}/first/1", f"{second}/second/1"}
                eventually(lambda: {*map(without_digest, worker.insights)} == both)
                os.kill(process.pid, signal.SIGCONT)
                # The fenced enabler passes requests on, and does not start the deleted insight.
                eventually(lambda: ids(paused) == {first, second}, what="it stands by")
                reasons = httpx.get(f"{process.url}/readyz").json()["waiting_for"]
                assert "another enabler has taken over this site" in reasons[0]
                former = announced(agent)
                assert former is not None
                assert former.url == url
                assert {*map(without_digest, worker.insights)} == both
            ended = time.monotonic()
        finally:
            os.kill(process.pid, signal.SIGCONT)

        def is_active() -> bool:
            seen = announced(agent)
            assert seen is not None
            assert (seen.url, seen.is_active) == (process.url, True)
            assert (seen.generation, seen.epoch) > (former.generation, former.epoch)
            assert seen.generation > former.generation
            assert seen.epoch > former.epoch
            return httpx.get(f"{process.url}/readyz").is_success

        eventually(is_active, what="it takes over again")
        assert time.monotonic() - ended <= LIMIT_S
        assert ids(paused) == {first, second}
        third = paused.submit(THIRD).deployment_id
        eventually(lambda: {*map(without_digest, worker.insights)} == {*both, f"{third}/third/1"})
        started = Counter(each.fingerprint for each in worker.started)
        assert set(started.values()) == {1}, "a fragment was started twice"
        submitted = Counter(
            each.subject for each in paused.decisions() if each.kind == "deployment_submitted"
        )
        assert submitted == dict.fromkeys((first, gone, second, third), 1)
        kinds = Counter(each.kind for each in paused.decisions())
        assert kinds["enabler_took_over"] == 1
        paused.close()
