"""``mistbow storage``: runs a site's storage, and inspects the storage of an agent."""

import pytest
from typer.testing import CliRunner

from command_line import storage
from command_line.app import app
from ignite_server.ports import free_ports
from suite.settings import StorageSettings

runner = CliRunner(env={"COLUMNS": "200", "TERM": "dumb"})


def test_storage_without_a_command_runs_the_services(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[StorageSettings] = []
    monkeypatch.setattr("suite.storage.run", seen.append)
    assert runner.invoke(app, ["storage", "--agent-port", "1234"]).exit_code == 0
    assert seen[0].agent_port == 1234
    help_text = runner.invoke(app, ["storage", "--help"]).output
    assert "inspect" in help_text
    assert "--durability" in help_text


def test_inspection_reports_an_agent_that_does_not_answer() -> None:
    [port] = free_ports(1)
    result = runner.invoke(app, ["storage", "inspect", "--url", f"http://127.0.0.1:{port}"])
    assert result.exit_code == 1
    assert "does not answer" in str(result.exception)


def test_durations() -> None:
    assert [storage.duration(each) for each in (None, 86_400_000, 5_400_000, 90_000, 1500)] == [
        "unlimited",
        "1 d",
        "90 min",
        "90 s",
        "1500 ms",
    ]
