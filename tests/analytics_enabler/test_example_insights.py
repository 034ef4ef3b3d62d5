"""The insights that ``mistbow run`` deploys, on a real enabler."""

import threading
from pathlib import Path

import pyarrow as pa

from analytics.client.enabler import EnablerClient
from deploy.first_results import FirstResults
from ignite_server.ports import free_ports
from mistbow.client.agent import AgentClient
from mistbow.streams.schemas import RESULT_ROWS
from suite.example_insights import follow_results
from tests.analytics_enabler.conftest import SharedSite
from tests.support.conditions import eventually


def test_showcase_does_not_redeploy_deleted_insight(
    shared_site: SharedSite, tmp_path: Path
) -> None:
    file = tmp_path / "showcase.insights"
    file.write_text("busy = COMPUTE AVG(cpu) EVERY 1 s", encoding="utf-8")
    enabler = EnablerClient(shared_site.enabler)

    def deployed() -> list[str]:
        return [d.deployment_id for d in enabler.list() if d.name == "showcase"]

    following = threading.Thread(
        target=lambda: list(follow_results(enabler, file, threading.Event())), daemon=True
    )
    following.start()
    (deployment_id,) = eventually(deployed)
    enabler.delete(deployment_id)
    following.join(20)
    assert not following.is_alive()
    assert deployed() == []


def test_first_results_wait_for_workers_and_retain_an_amendment(
    shared_site: SharedSite, tmp_path: Path
) -> None:
    file = tmp_path / "fog.insights"
    file.write_text("busy = COMPUTE AVG(cpu) EVERY 1 s")
    enabler, agent = EnablerClient(shared_site.enabler), AgentClient(shared_site.agent)
    messages: list[str] = []
    results = FirstResults(enabler, file, messages.append)
    workers = len(enabler.fog().nodes)
    assert results.poll(workers + 1, is_ready=False) is None
    assert not [each for each in enabler.list() if each.name == "fog"]
    # Nothing waits for a worker that never comes once all containers are healthy.
    assert results.poll(workers + 1, is_ready=True) is None
    (deployed,) = [each for each in enabler.list() if each.name == "fog"]
    amended = "busy = COMPUTE MAX(cpu) EVERY 1 s"
    enabler.amend(deployed.deployment_id, amended, name="fog")
    (insight,) = enabler.show(deployed.deployment_id).insights
    row = {"insight": insight.uid, "key": "{}", "ts": insight.first_tick, "value": 1.5}
    rows = [{**row, "revision": 0, "computed_at": insight.first_tick}]
    agent.create_stream("results/all.fair", RESULT_ROWS)
    agent.append("results/all.fair", pa.RecordBatch.from_pylist(rows, schema=RESULT_ROWS))
    found = eventually(lambda: results.poll(workers, is_ready=False))
    assert found == deployed.deployment_id
    assert [" 1.500" in each for each in messages] == [False, True]
    assert enabler.show(deployed.deployment_id).queries == amended


def test_first_results_report_why_there_are_none(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    (tmp_path / "any").touch()
    silent = EnablerClient(f"http://127.0.0.1:{port}", attempts=1)
    results = FirstResults(silent, tmp_path / "any", print)
    assert results.poll(0, is_ready=True) is None
    assert "does not answer" in results.problem
    silent.close()
