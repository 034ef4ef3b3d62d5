"""The unit files for systemd: their directives, commands and settings exist."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from pydantic_settings import BaseSettings
from typer.testing import CliRunner

from analytics_enabler.settings import EnablerSettings
from analytics_worker.settings import WorkerSettings
from command_line.app import app
from deploy import image
from monitoring_agent.settings import MonitorSettings
from storage_agent.settings import AgentSettings
from suite.settings import StorageSettings
from tests.support.programs import needs

FOLDER = image.ROOT / "deploy" / "systemd"
UNITS = sorted(FOLDER.glob("*.service"))
VARIABLES = FOLDER / "mistbow.env"
EXAMPLES = [
    VARIABLES.read_text(),
    *re.findall(r"```ini\n(.*?)```", (image.ROOT / "docs" / "sites.md").read_text(), re.DOTALL),
]
"""The example of the units, and the files of both machines in the page about sites."""

INSTALLED = "/opt/mistbow/.venv/bin/mistbow"
SETTINGS: dict[str, tuple[type[BaseSettings], ...]] = {
    "storage": (StorageSettings, AgentSettings, MonitorSettings),
    "worker": (WorkerSettings,),
    "enabler": (EnablerSettings,),
}
EACH_UNIT = pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.stem)


def directives(unit: Path, name: str) -> list[str]:
    """Return the values of a directive, which may be repeated."""
    return re.findall(rf"^{name}=(.*)$", unit.read_text(), re.MULTILINE)


def command_of(unit: Path) -> list[str]:
    """Return the words after ``mistbow`` in the command of a unit."""
    [command] = directives(unit, "ExecStart")
    assert command.startswith(f"{INSTALLED} ")
    return command.split()[1:]


def variables_of(text: str) -> set[str]:
    """Return the settings in a text, also in comments."""
    return set(re.findall(r"\bMISTBOW_[A-Z_]+(?==)", text))


def known(*settings: type[BaseSettings]) -> set[str]:
    return {f"MISTBOW_{name.upper()}" for each in settings for name in each.model_fields}


@needs("systemd-analyze")
@pytest.mark.usefixtures("processes")
def test_systemd_accepts_the_units_without_a_warning(tmp_path: Path) -> None:
    mistbow = Path(sys.executable).with_name("mistbow")
    copies = [tmp_path / unit.name for unit in UNITS]
    for unit, copy in zip(UNITS, copies, strict=True):
        copy.write_text(unit.read_text().replace(INSTALLED, str(mistbow)))
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", *copies],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


@EACH_UNIT
def test_command_and_flags_of_a_unit_exist(unit: Path) -> None:
    command, *flags = command_of(unit)
    assert unit.stem == f"mistbow-{command}"
    shown = CliRunner().invoke(app, [command, "--help"], env={"COLUMNS": "200"})
    assert shown.exit_code == 0
    for flag in flags:
        assert not flag.startswith("-") or f"{flag} " in shown.output


@EACH_UNIT
def test_settings_of_a_unit_exist(unit: Path) -> None:
    found = variables_of(unit.read_text())
    assert found
    assert found <= known(*SETTINGS[command_of(unit)[0]])


@pytest.mark.parametrize("text", EXAMPLES, ids=["example", "cloud", "edge"])
def test_variables_of_the_examples_are_valid_settings(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    each_kind = [kind for kinds in SETTINGS.values() for kind in kinds]
    assert variables_of(text) <= known(*each_kind)
    (tmp_path / "token").write_text("a-token-of-the-fog")
    for line in text.replace("/etc/mistbow/token", str(tmp_path / "token")).splitlines():
        if variables_of(line):
            name, _, value = line.strip().removeprefix("# ").partition("=")
            monkeypatch.setenv(name, value)
    for kind in each_kind:
        kind()


def test_units_read_the_example_and_leave_a_worker_time_to_drain() -> None:
    [drain_s] = re.findall(r"MISTBOW_DRAIN_S=(\d+)", VARIABLES.read_text())
    for unit in UNITS:
        name = command_of(unit)[0]
        assert directives(unit, "EnvironmentFile") == [
            f"/etc/mistbow/{VARIABLES.name}", f"-/etc/mistbow/{name}.env"
        ]  # fmt: skip
        if name == "worker":
            [stop_s] = directives(unit, "TimeoutStopSec")
            assert int(stop_s) >= int(drain_s) + 15
