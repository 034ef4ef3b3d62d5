"""Reconciliation of the worker of one site: after restarts, and with two enablers."""

import asyncio
import re
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest

from analytics.client.enabler import EnablerClient
from analytics.plan.fragments import StreamLocation, Whole
from analytics_enabler.catalogue import DataCatalogue
from analytics_enabler.execution.status import ExecutionStatus
from analytics_enabler.main import create_app
from analytics_enabler.settings import EnablerSettings
from ignite_server.ports import free_ports
from mistbow.errors import FencedError, MistbowError, UnavailableError
from storage_agent.main import create_app as create_agent
from storage_agent.settings import AgentSettings
from tests.analytics_enabler.conftest import StartEnabler, running_enabler
from tests.analytics_enabler.spark_worker import TEST_TIMEOUT_S, MakeWorker, SparkWorker, eventually
from tests.support.http_server import served
from tests.support.operators import install_example_operators

pytestmark = pytest.mark.timeout(TEST_TIMEOUT_S)

NOW = "cpu_now = COMPUTE AVG(cpu, 2 s) EVERY 1 s"
HEADROOM = "cpu_headroom = COMPUTE 100 - AVG(cpu, 2 s) EVERY 1 s"


def test_deployments_of_one_group_become_one_fragment(
    enabler: EnablerClient, worker: SparkWorker
) -> None:
    first = enabler.submit(NOW).deployment_id
    second = enabler.submit(HEADROOM).deployment_id
    both = {f"{first}/cpu_now/1", f"{second}/cpu_headroom/1"}
    eventually(lambda: worker.insights == both)
    (fragment,) = worker.fragments.values()
    assert isinstance(fragment, Whole)
    assert fragment.id == "all.fair"
    assert (fragment.source, fragment.target) == (
        StreamLocation("n1", "raw"),
        StreamLocation("n1", "results/all.fair"),
    )
    assert len(fragment.plan.windows) == len(fragment.plan.panes) == 1
    enabler.delete(first)
    eventually(lambda: worker.insights == {f"{second}/cpu_headroom/1"})
    enabler.delete(second)
    eventually(lambda: worker.fragments == {})


def test_deleted_insight_with_options_stops_beside_an_insight_without_options(
    enabler: EnablerClient, worker: SparkWorker
) -> None:
    enabler.submit(NOW)
    important = enabler.submit(f"{HEADROOM} WITH SALIENCE 5").deployment_id
    eventually(lambda: len(worker.fragments) == 2)
    enabler.delete(important)
    eventually(lambda: set(worker.fragments) == {"all.fair"})


def test_insight_is_running_while_its_group_is_handed_over(
    enabler: EnablerClient, worker: SparkWorker
) -> None:
    first = enabler.submit(NOW).deployment_id
    eventually(lambda: enabler.show(first).status == "running")
    worker.hold_queries()
    second = enabler.submit(HEADROOM).deployment_id
    eventually(lambda: len(worker.insights) == 2)
    first_tick = enabler.show(second).insights[0].first_tick
    eventually(lambda: worker.statuses["all.fair"].frontier > first_tick)
    # The frontier of the running version is not that of the version which catches up.
    assert enabler.show(second).status == "starting"
    assert enabler.show(first).status == "running"
    worker.release_queries()
    eventually(lambda: enabler.show(second).status == "running")


def test_insight_waits_for_worker_with_its_operator(
    enabler: EnablerClient,
    worker: SparkWorker,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The operator is installed where the enabler and the worker run, and then also announced."""
    install_example_operators(tmp_path, monkeypatch)
    deployment_id = enabler.submit("a = COMPUTE trimmed_mean(x, 2 s) EVERY 1 s").deployment_id
    eventually(lambda: worker.insights == {f"{deployment_id}/a/1"}, timeout=60)


def test_worker_receives_its_fragments_before_their_states_are_recorded(
    enabler: EnablerClient, worker: SparkWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("no state can be recorded")

    monkeypatch.setattr(ExecutionStatus, "observe", fail)
    enabler.submit(NOW)
    eventually(lambda: worker.fragments)


def test_worker_receives_its_fragments_while_the_series_of_a_site_are_unknown(
    enabler: EnablerClient, worker: SparkWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def wait(_: DataCatalogue) -> None:
        await asyncio.Event().wait()

    first, second = enabler.submit(NOW).deployment_id, enabler.submit(HEADROOM).deployment_id
    eventually(lambda: len(worker.insights) == 2)
    monkeypatch.setattr(DataCatalogue, "series", wait)
    enabler.delete(second)
    eventually(lambda: worker.insights == {f"{first}/cpu_now/1"})


def test_error_names_the_silent_worker_and_then_the_site_without_worker(
    enabler: EnablerClient, agent_url: str, make_worker: MakeWorker
) -> None:
    deployment_id = enabler.submit(NOW).deployment_id

    def error() -> str:
        shown = enabler.show(deployment_id)
        assert shown.insights[0].error == shown.error
        return shown.error or ""

    eventually(lambda: error().startswith("the site n1 has no worker since 20"))
    with make_worker("w1") as first:
        first.start(agent_url)
        eventually(lambda: first.insights and error() == "")
        first.kill()
        eventually(lambda: error().startswith("the worker w1 at http://127.0.0.1:"))
        assert "does not answer the enabler since 20" in error()
        eventually(lambda: "the site n1 has no worker" in error())
        assert ": its worker w1 sent no announcement. " in error()
        assert enabler.show(deployment_id).status == "waiting for a worker"


def test_restarted_worker_receives_its_fragments_again(
    enabler: EnablerClient, worker: SparkWorker, agent_url: str
) -> None:
    enabler.submit(NOW)
    eventually(lambda: worker.fragments)
    worker.kill()
    worker.start(agent_url)
    eventually(lambda: len(worker.started) == 2, timeout=60, what="it starts again")
    first, second = worker.started
    assert first == second


def test_amended_insight_runs_until_results_are_complete(
    enabler: EnablerClient, worker: SparkWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("analytics_enabler.execution.lifecycle.LATE_MS", 1000)
    deployment_id = enabler.submit(f"{NOW}; {HEADROOM}").deployment_id
    eventually(lambda: worker.insights)
    accepted = enabler.amend(deployment_id, f"{NOW}; {HEADROOM.replace('AVG', 'MAX')}")
    assert accepted.insights == ["cpu_now", "cpu_headroom"]
    names = ("cpu_now/1", "cpu_headroom/1", "cpu_headroom/2")
    now, old, new = (f"{deployment_id}/{name}" for name in names)
    eventually(lambda: worker.insights == {now, old, new})
    insights = enabler.show(deployment_id).insights
    assert [insight.uid for insight in insights] == [now, new]
    eventually(lambda: worker.insights == {now, new}, timeout=60)
    eventually(lambda: enabler.show(deployment_id).status == "running")


def test_restarted_enabler_resumes_deployments(
    start_enabler: StartEnabler, worker: SparkWorker
) -> None:
    with start_enabler() as url:
        deployment_id = EnablerClient(url).submit(NOW, name="kept").deployment_id
        gone = EnablerClient(url).submit(HEADROOM).deployment_id
        EnablerClient(url).delete(gone)
        # The deleted insight may have been sent before.
        eventually(lambda: len(worker.insights) == 1)
        eventually(lambda: EnablerClient(url).show(deployment_id).status == "running")
        before = EnablerClient(url).show(deployment_id)
    started = len(worker.started)
    with start_enabler() as url:
        client = EnablerClient(url)
        eventually(lambda: client.show(deployment_id).status == before.status)
        assert [shown.deployment_id for shown in client.list()] == [deployment_id]
        after = client.show(deployment_id)
        assert [each.uid for each in after.insights] == [each.uid for each in before.insights]
        placed = [(each.node, each.since) for each in before.placement]
        assert [(each.node, each.since) for each in after.placement] == placed
        client.submit(HEADROOM)
        eventually(lambda: len(worker.insights) == 2)
    # The running fragment was not sent again.
    assert len(worker.started) == started + 1


def test_older_of_two_enablers_is_fenced(start_enabler: StartEnabler, worker: SparkWorker) -> None:
    with start_enabler() as old_url, start_enabler() as new_url:
        old, new = EnablerClient(old_url), EnablerClient(new_url)
        deployment_id = new.submit(NOW).deployment_id

        def refusal() -> str:
            with pytest.raises(MistbowError) as refused:
                old.submit(HEADROOM)
            return refused.value.code

        # Until the new enabler announces itself, the answer can be 503.
        eventually(lambda: refusal() == FencedError.code)
        ready = httpx.get(f"{old_url}/readyz")
        assert ready.status_code == 503
        assert "another enabler" in ready.json()["waiting_for"][0]
        assert httpx.get(f"{new_url}/readyz").is_success
        # The fenced enabler does not stop the fragment either.
        eventually(lambda: worker.insights == {f"{deployment_id}/cpu_now/1"})
        assert [shown.deployment_id for shown in new.list()] == [deployment_id]


def test_enabler_reports_lost_agent_and_recovers(
    agent_settings: AgentSettings, tmp_path: Path
) -> None:
    (port,) = free_ports(1)
    with ExitStack() as stack:
        agent = stack.enter_context(ExitStack())
        agent_url = agent.enter_context(served(create_agent(agent_settings), port))
        eventually(lambda: httpx.get(f"{agent_url}/readyz").is_success)
        url = stack.enter_context(running_enabler(agent_url, tmp_path))
        client = EnablerClient(url)
        deployment_id = client.submit(NOW).deployment_id
        agent.close()
        assert httpx.get(f"{url}/readyz", timeout=30).status_code == 503
        lost = "the enabler cannot use the storage agent of its site since 20"
        eventually(lambda: lost in (client.show(deployment_id).error or ""))
        assert f": {agent_url} does not answer: " in (client.show(deployment_id).error or "")
        assert client.show(deployment_id).queries == NOW
        with pytest.raises(UnavailableError):
            client.submit(HEADROOM)
        stack.enter_context(served(create_agent(agent_settings), port))
        eventually(lambda: httpx.get(f"{url}/readyz", timeout=30).is_success)
        client.submit(HEADROOM)
        assert len(client.list()) == 2
        eventually(lambda: lost not in (client.show(deployment_id).error or ""))


def test_enabler_without_an_agent_reports_why_it_is_not_ready(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    agent_url = f"http://127.0.0.1:{port}"
    with served(create_app(EnablerSettings(home=tmp_path, agent_url=agent_url))) as url:

        def reasons() -> str:
            return " ".join(httpx.get(f"{url}/readyz").json()["waiting_for"])

        why = rf"cannot use the storage agent of its site since 20\d\d.*: {agent_url} does not"
        eventually(lambda: re.search(why, reasons()))
