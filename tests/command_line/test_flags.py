import errno
import os
from collections.abc import Iterator
from typing import Literal

import pytest
import typer
from pydantic import Field, SecretStr
from pydantic_settings import BaseSettings, SettingsConfigDict
from typer.testing import CliRunner

from analytics_enabler.settings import EnablerSettings
from analytics_worker.settings import WorkerSettings
from mistbow.flags import command_of, exit_on_errors
from monitoring_agent.settings import MonitorSettings
from storage_agent.settings import AgentSettings
from suite.settings import RunSettings


@pytest.fixture(autouse=True)
def own_umask() -> Iterator[None]:
    """Restore the umask, which a command changes for its whole process."""
    before = os.umask(0o022)
    os.umask(before)
    yield
    os.umask(before)


class Settings(BaseSettings):
    model_config = SettingsConfigDict(env_prefix="MISTBOW_TEST_", hide_input_in_errors=True)

    port: int = Field(default=7, ge=1, le=99, description="The port.")
    mode: Literal["a", "b"] = Field(default="a", description="The mode.")
    token: SecretStr | None = Field(default=None, description="The token.")


def invoke(*argv, settings=Settings, env=None):
    """Run a command line; return its settings (None: invalid) and the result of the run."""
    seen = []
    app = typer.Typer()
    app.command()(command_of(settings, seen.append))
    result = CliRunner().invoke(app, argv, env={"COLUMNS": "200", "TERM": "dumb", **(env or {})})
    return seen[0] if seen else None, result


def test_flag_beats_variable_beats_default():
    assert invoke()[0].port == 7
    assert invoke(env={"MISTBOW_TEST_PORT": "8"})[0].port == 8
    assert invoke("--port", "9", env={"MISTBOW_TEST_PORT": "8"})[0].port == 9


def test_bad_value_is_reported_with_its_source_unless_it_is_a_secret():
    seen, result = invoke("--port", "seven")
    assert seen is None
    assert result.exit_code == 2
    assert "mistbow: --port is 'seven': it must be a valid integer" in result.output
    _, result = invoke(env={"MISTBOW_TEST_PORT": "100"})
    allowed = "MISTBOW_TEST_PORT is '100': it must be less than or equal to 99"
    assert allowed in result.output


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


def test_full_disk_ends_a_command_with_one_message() -> None:
    with pytest.raises(SystemExit) as ended, exit_on_errors():
        raise OSError(errno.ENOSPC, "No space left on device", "/data/logs")
    text = str(ended.value.code)
    assert text == "mistbow: /data/logs: No space left on device\n  hint: free space on this disk"


def test_unexpected_os_error_is_not_hidden() -> None:
    with pytest.raises(ChildProcessError), exit_on_errors():
        raise ChildProcessError("a defect")
