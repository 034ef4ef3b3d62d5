"""Insights with constraints or cost caps, which wait with a reason if no node meets them."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from analytics.client.enabler import EnablerClient
from storage_agent.settings import AgentSettings
from tests.analytics_enabler.conftest import running_enabler
from tests.analytics_enabler.spark_worker import TEST_TIMEOUT_S, MakeWorker, SparkWorker, eventually
from tests.analytics_enabler.support import without_digest
from tests.support.agents import running_agent

pytestmark = pytest.mark.timeout(TEST_TIMEOUT_S)

AVG = "q = COMPUTE AVG(x) EVERY 1 s"


@pytest.fixture
def worker(make_worker: MakeWorker) -> Iterator[SparkWorker]:
    with make_worker("w1") as worker:
        yield worker


@pytest.fixture
def enabler(
    agent_settings: AgentSettings, worker: SparkWorker, tmp_path: Path
) -> Iterator[EnablerClient]:
    """Start a site whose worker has the zone north and a price; yield a client of the enabler."""
    settings = agent_settings.model_copy(update={"labels": "zone=north,price_per_hour=100"})
    with running_agent(settings) as agent_url, running_enabler(agent_url, tmp_path) as url:
        worker.start(agent_url)
        client = EnablerClient(url)
        yield client
        client.close()


def refused(enabler: EnablerClient, options: str, reason: str) -> str:
    """Deploy an insight, and wait until the enabler reports why no worker runs it: ``reason``.

    Returns the id of the deployment.
    """
    deployment = enabler.submit(f"{AVG} WITH {options}").deployment_id
    eventually(lambda: reason in (enabler.show(deployment).error or ""), timeout=60)
    assert enabler.show(deployment).status == "waiting for a worker"
    return deployment


def test_insight_waits_for_its_constraint_with_reason(
    enabler: EnablerClient, worker: SparkWorker
) -> None:
    enabler.delete(refused(enabler, "PLACEMENT_ON zone='west'", "no node with zone=west"))
    over = "more than its COST_CAP of 0.0001"
    enabler.delete(refused(enabler, "COST_CAP 0.0024 PER 1 DAY", over))
    options = "COST_CAP 2400 PER 1 DAY AND PLACEMENT_ON zone='north'"
    text = enabler.explain_text(f"{AVG} WITH {options}")
    assert re.search(r"cost per hour: [\d.]+ \(COST_CAP: 100\)", text)
    mine = enabler.submit(f"{AVG} WITH PLACEMENT_ON zone='north' DEDICATED").deployment_id
    eventually(lambda: {*map(without_digest, worker.insights)} == {f"{mine}/q/1"}, timeout=60)
    dedicated = "every node with zone=north is dedicated to another insight"
    refused(enabler, "PLACEMENT_ON zone='north'", dedicated)
    assert enabler.show(mine).error is None
