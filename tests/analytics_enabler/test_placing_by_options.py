"""Insights that ask something of nodes and costs wait where that is not to be had, and say so."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from mistbow.client.enabler import EnablerClient
from mistbow.settings import AgentSettings
from tests.analytics_enabler.conftest import running_enabler
from tests.analytics_enabler.recording_worker import RecordingWorker
from tests.support.agents import running_agent
from tests.support.waiting import eventually

AVG = "q = COMPUTE AVG(x) EVERY 1 s"


@pytest.fixture
def enabler(
    agent_settings: AgentSettings, worker: RecordingWorker, tmp_path: Path
) -> Iterator[EnablerClient]:
    """An enabler of a site with one worker, whose labels are those of the site."""
    settings = agent_settings.model_copy(update={"labels": "zone=north,price_per_hour=100"})
    with (
        running_agent(settings) as agent_url,
        worker.running(agent_url),
        running_enabler(agent_url, tmp_path) as url,
    ):
        client = EnablerClient(url)
        yield client
        client.close()


def refused(enabler: EnablerClient, options: str, reason: str) -> str:
    """Deploy an insight that waits for this reason."""
    deployment = enabler.submit(f"{AVG} WITH {options}").deployment_id
    eventually(lambda: reason in (enabler.show(deployment).error or ""), timeout=60)
    assert enabler.show(deployment).status == "waiting for a worker"
    return deployment


def test_an_insight_waits_for_what_it_asks_and_is_told_why(
    enabler: EnablerClient, worker: RecordingWorker
) -> None:
    enabler.delete(refused(enabler, "PLACEMENT_ON zone='west'", "no node with zone=west"))
    # A tenth of a core of two.
    over = "it would cost 5 an hour, 3 more than its COST_CAP of 2"
    enabler.delete(refused(enabler, "COST_CAP 48 PER 1 DAY", over))
    text = enabler.explain_text(f"{AVG} WITH COST_CAP 240 PER 1 DAY AND PLACEMENT_ON zone='north'")
    assert "cost an hour: 5, at most 10 may be" in text
    mine = enabler.submit(f"{AVG} WITH PLACEMENT_ON zone='north' DEDICATED").deployment_id
    eventually(lambda: worker.insights == {f"{mine}/q/1"}, timeout=60)
    dedicated = "every node with zone=north is dedicated to another insight"
    refused(enabler, "PLACEMENT_ON zone='north'", dedicated)
    assert enabler.show(mine).error is None
