"""The plan of placements, and the fog that schedulers see, through the API and the command."""

import json

import pytest
from typer.testing import CliRunner, Result

from analytics.client.enabler import EnablerClient
from command_line.fog import app
from mistbow.errors import InvalidRequestError
from tests.analytics_enabler.api.test_insights import QUERY
from tests.support.conditions import eventually


@pytest.fixture
def enabler_url(live_enabler_url: str) -> str:
    return live_enabler_url


def command(url: str, *arguments: str) -> Result:
    return CliRunner().invoke(app, arguments, env={"MISTBOW_ENABLER_URL": url, "COLUMNS": "200"})


def test_plan_shows_placement_demand_and_latency_without_deployment(
    enabler: EnablerClient,
) -> None:
    eventually(lambda: enabler.plan(QUERY).groups, what="the enabler has read the fabric")
    (group,) = enabler.plan(QUERY).groups
    (worker,) = enabler.fog().nodes
    (fragment,) = group.fragments
    assert (group.scheduler, fragment.worker, fragment.site) == ("fair", worker.name, worker.site)
    assert fragment.cores is not None
    assert fragment.memory_mb is not None
    assert 0 < fragment.cores < worker.cores
    assert 0 < fragment.memory_mb < worker.memory_mb
    assert (group.latency_ms, fragment.data_latency_ms) == (0.0, 0.0)
    assert not fragment.running
    assert enabler.list() == []


def test_plan_by_another_scheduler(enabler: EnablerClient) -> None:
    eventually(lambda: enabler.plan(QUERY).groups, what="the enabler has read the fabric")
    (group,) = enabler.plan(f"{QUERY} WITH SCHEDULER=fair", scheduler="latency").groups
    assert group.scheduler == "latency"
    with pytest.raises(InvalidRequestError, match=r"no scheduler 'nope'; installed: .*fair"):
        enabler.plan(QUERY, scheduler="nope")


def test_plan_of_text_with_errors_has_only_problems(enabler: EnablerClient) -> None:
    plan = enabler.plan("a = COMPUTE AVGG(cpu.util) EVERY 5 s")
    assert plan.problems[0].severity == "error"
    assert plan.groups == []


def test_command_shows_fog_and_plan(enabler_url: str, enabler: EnablerClient) -> None:
    eventually(lambda: enabler.plan(QUERY).groups, what="the enabler has read the fabric")
    (worker,) = enabler.fog().nodes
    shown = command(enabler_url, "show")
    assert shown.exit_code == 0, shown.output
    assert worker.name in shown.stdout
    assert json.loads(command(enabler_url, "show", "--json").stdout)["sites"] == [worker.site]
    planned = command(enabler_url, "plan", QUERY, "--scheduler", "latency")
    assert planned.exit_code == 0, planned.output
    assert "placed by latency" in planned.stdout
    assert "latency of links from points to results: 0 ms" in planned.stdout
    failed = command(enabler_url, "plan", "a = COMPUTE AVGG(cpu.util) EVERY 5 s")
    assert failed.exit_code == 1
    assert "AVGG" in failed.stderr
