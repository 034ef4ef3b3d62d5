from typing import Literal

import pytest
import typer
from pydantic import Field, SecretStr
from pydantic_settings import BaseSettings, SettingsConfigDict
from typer.testing import CliRunner

from mistbow.cli.flags import command_of
from mistbow.monitoring.settings import MonitorSettings
from mistbow.settings import (
    AgentSettings,
    EnablerSettings,
    RunSettings,
    WorkerSettings,
)


class Settings(BaseSettings):
    model_config = SettingsConfigDict(env_prefix="MISTBOW_TEST_", hide_input_in_errors=True)

    port: int = Field(default=7, ge=1, le=99, description="The port.")
    mode: Literal["a", "b"] = Field(default="a", description="The mode.")
    token: SecretStr | None = Field(default=None, description="The token.")


def invoke(*argv, settings=Settings, env=None):
    """Return the settings that a command line makes, and what it prints."""
    seen = []
    app = typer.Typer()
    app.command()(command_of(settings, seen.append))
    result = CliRunner().invoke(app, argv, env={"COLUMNS": "200", "TERM": "dumb", **(env or {})})
    return seen[0] if seen else None, result


def test_flag_beats_variable_beats_default():
    assert invoke()[0].port == 7
    assert invoke(env={"MISTBOW_TEST_PORT": "8"})[0].port == 8
    assert invoke("--port", "9", env={"MISTBOW_TEST_PORT": "8"})[0].port == 9


def test_bad_value_is_told_by_its_flag_and_not_repeated():
    seen, result = invoke("--port", "hunter2")
    assert seen is None
    assert result.exit_code == 2
    assert "port: Input should be a valid integer" in result.output
    assert "hunter2" not in result.output


@pytest.mark.parametrize(
    "settings", [AgentSettings, EnablerSettings, MonitorSettings, RunSettings, WorkerSettings]
)
def test_help_lists_every_setting_with_its_variable_and_default(settings):
    _, result = invoke("--help", settings=settings)
    shown = " ".join(result.output.replace("│", " ").split())
    for name, field in settings.model_fields.items():
        assert f"--{name.replace('_', '-')}" in shown
        assert f"MISTBOW_{name.upper()}" in shown
        assert field.description
        if field.default not in (None, "") and field.default_factory is None:
            assert str(field.default) in shown
