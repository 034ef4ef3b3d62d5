"""The command ``mistbow insights`` with a real enabler."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from analytics.client.enabler import AsyncEnablerClient, EnablerClient
from command_line.insights import app
from ignite_server.ports import free_ports
from tests.analytics_enabler.conftest import SharedSite, active
from tests.support.conditions import eventually

QUERY = "cpu_now = COMPUTE AVG(cpu, 10 s) BY node EVERY 5 s"


class Command:
    """A callable that runs the command ``mistbow insights`` with the URL of an enabler."""

    def __init__(self, url: str) -> None:
        self._environment = {"MISTBOW_ENABLER_URL": url, "COLUMNS": "200"}

    def __call__(self, *arguments: str, stdin: str | None = None) -> Result:
        return CliRunner().invoke(app, arguments, input=stdin, env=self._environment)


@pytest.fixture
def shared_site(shared_live_site: SharedSite) -> SharedSite:
    return active(shared_live_site)


@pytest.fixture
def command(shared_site: SharedSite) -> Command:
    return Command(shared_site.enabler)


def test_command_submits_shows_amends_and_deletes(command: Command, tmp_path: Path) -> None:
    file = tmp_path / "host.insights"
    file.write_text(QUERY, encoding="utf-8")
    submitted = command("submit", str(file), "--name", "host")
    assert submitted.exit_code == 0, submitted.output
    deployment_id = submitted.stdout.split(":")[0]
    assert submitted.stdout == f"{deployment_id}: cpu_now\n"
    listed = command("list")
    assert deployment_id in listed.stdout
    assert "host" in listed.stdout
    shown = command("show", deployment_id)
    assert "AVG(cpu, 10 SECONDS)" in shown.stdout
    version = json.loads(command("show", deployment_id, "--json").stdout)["version"]
    assert f"version: {version}" in shown.stdout
    text = f"{QUERY}; {QUERY.replace('now', 'b')}"
    amend = ("submit", "--amend", deployment_id, "--if-version", version)
    amended = command(*amend, text)
    refused = command(*amend, QUERY)
    assert refused.exit_code == 1
    assert "has changed since the version" in refused.stderr
    assert amended.stdout == f"{deployment_id}: cpu_now, cpu_b\n"
    assert json.loads(command("results", deployment_id, "--json").stdout or "null") is None
    assert command("pause", deployment_id).stdout == f"{deployment_id} is paused\n"
    assert "state: paused since" in command("show", deployment_id).stdout
    resumed = json.loads(command("resume", deployment_id, "--json").stdout)
    assert resumed["lifecycle"]["state"] != "paused"
    decided = command("decisions", deployment_id, "--limit", "1000").stdout
    assert f"the deployment {deployment_id} (host) is paused: a request (token of" in decided
    (last,) = command("decisions", "--limit", "1", "--json").stdout.splitlines()
    assert json.loads(last)["what"]
    assert command("delete", deployment_id).stdout == f"{deployment_id} is deleted\n"
    assert command("show", deployment_id).exit_code == 1


def test_command_marks_problem_with_caret(command: Command) -> None:
    refused = command("submit", "a = COMPUTE AVGG(cpu) EVERY 5 s")
    assert refused.exit_code == 1
    assert "1 | a = COMPUTE AVGG(cpu) EVERY 5 s\n  |             ^^^^" in refused.stderr
    assert "hint: Did you mean `AVG`?" in refused.stderr
    assert refused.stdout == ""


def test_check(command: Command) -> None:
    assert command("check", QUERY).stdout == "ok\n"
    assert command("check", "-", stdin="a = COMPUTE").exit_code == 1
    answer = json.loads(command("check", "--json", "a = COMPUTE AVG(x)").stdout)
    assert not answer["ok"]
    assert answer["problems"][0]["hint"].startswith("Add a window, as in `AVG(x, 10 SECONDS)`")


def test_explain(command: Command) -> None:
    assert "After merge_identical" in command("explain", QUERY).stdout
    assert json.loads(command("explain", "--json", QUERY).stdout)["plan"]


def test_command_with_wrong_usage_exits_with_2(command: Command) -> None:
    assert command("submit", "no_such_file.insights").exit_code == 2
    assert command("results", "d-1", "--limit", "x").exit_code == 2
    assert command("frobnicate").exit_code == 2


def test_command_reports_unreachable_enabler() -> None:
    (port,) = free_ports(1)
    away = Command(f"http://127.0.0.1:{port}")("list")
    assert away.exit_code == 1
    assert "does not answer" in away.stderr
    assert "Check that the service is running" in away.stderr


async def test_async_client_behaves_like_sync_client(shared_site: SharedSite) -> None:
    client, other = AsyncEnablerClient(shared_site.enabler), EnablerClient(shared_site.enabler)
    accepted = await client.submit(QUERY, name="n")
    deployment_id = accepted.deployment_id
    eventually(lambda: other.explain(QUERY).groups[0].fragments[0].running)
    shown = await client.show(deployment_id)
    assert shown.queries == other.show(deployment_id).queries
    assert [each.deployment_id for each in await client.list()] == [
        each.deployment_id for each in other.list()
    ]
    assert await client.check(QUERY) == other.check(QUERY)
    assert (await client.explain(QUERY)).plan == other.explain(QUERY).plan
    for text in (await client.explain_text(QUERY), other.explain_text(QUERY)):
        assert "After merge_identical" in text
    assert await client.results(deployment_id) == other.results(deployment_id)
    assert (await client.amend(deployment_id, QUERY)).deployment_id == deployment_id
    await client.delete(deployment_id)
    assert deployment_id not in [shown.deployment_id for shown in await client.list()]
    await client.close()
    other.close()
