import os

import pytest
import typer

from suite.processes import children
from suite.services import check_settings_of
from suite.settings import RunSettings


def _when_fenced(settings: RunSettings) -> str:
    (agent,) = (child for child in children(settings) if child.name == "agent")
    return agent.env["MISTBOW_WHEN_FENCED"]


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize(("nodes", "expected"), [("", "end"), ("127.0.0.1:1,127.0.0.1:2", "stay")])
def test_fenced_agent_of_a_run_ends_unless_the_site_has_several_machines(
    nodes, expected, tmp_path, monkeypatch
):
    monkeypatch.delenv("MISTBOW_WHEN_FENCED", raising=False)
    settings = RunSettings(home=tmp_path, ignite_nodes=nodes, ignite_discovery_port=1)
    assert _when_fenced(settings) == expected


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize("chosen", ["end", "stay"])
def test_fenced_agent_of_a_run_does_what_its_setting_chooses(chosen, tmp_path, monkeypatch):
    monkeypatch.setenv("MISTBOW_WHEN_FENCED", chosen)
    assert _when_fenced(RunSettings(home=tmp_path)) == chosen


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("MISTBOW_LATENESS_MS", "abc"),
        ("MISTBOW_MQTT_URL", ""),
        ("MISTBOW_LABELS", "x"),
        ("MISTBOW_DRIVER_MEMORY", "much"),
    ],
)
def test_invalid_setting_of_a_service_ends_a_run_before_it_starts(
    name, value, tmp_path, monkeypatch, capsys
):
    processes = children(RunSettings(home=tmp_path))
    check_settings_of(processes)
    monkeypatch.setenv(name, value)
    before = dict(os.environ)
    with pytest.raises(typer.Exit) as refused:
        check_settings_of(processes)
    assert refused.value.exit_code == 2
    assert name in capsys.readouterr().err
    assert dict(os.environ) == before
