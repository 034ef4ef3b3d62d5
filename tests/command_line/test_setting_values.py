"""Every setting of every service refuses bad values before anything starts.

The settings come from the classes of the commands, so new settings are included.
"""

import functools
import os
import re
from collections.abc import Iterator
from datetime import time
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import pytest
import typer
import typer.testing
from pydantic.fields import FieldInfo

import command_line.app
from mistbow.flags import command_of
from mistbow.setting_values import CheckedSettings, is_secret

assert command_line.app  # it imports all settings

LONG = "9" * 70_000
IN_NO_VALUE = (" ", "\t", "a\nb", "5\r\n", "\u2028", LONG)
OF_NUMBERS = ("", "-1", "nan", "NaN", "inf", "-inf", "1e400", "9" * 40, "five", "٣", "5 5", "0x10")
OF_CHOICES = ("", "-1", "nan", "9" * 40, "fivé", "a b")
OF_PATHS = ("",)
PARTICULAR: dict[str, tuple[str, ...]] = {
    "home": ("/dev/null", "/dev/null/x", "/proc/x", "/proc/self"),
    "host": ("", "127.0.0.1:80", "[::1]:80", "http://localhost", "300.0.0.1", "a b", "ü"),
    "host_names": ("a b", "a,b c", "http://", "a,ü"),
    "insights": ("/nonexistent",),
    "token": ("", "a b", "geheim-ü", "x\ny"),
    "token_file": ("/nonexistent", "/dev/null", "/proc"),
    "tokens_file": ("/nonexistent",),
    "tls_ca": ("/nonexistent", "/dev/null"),
    "tls_cert": ("/nonexistent",),
    "tls_key": ("/nonexistent",),
    "ignite_tls_ca": ("/nonexistent",),
    "ignite_keystore_password": ("", "#{x}"),
    "ignite_address": ("", "127.0.0.1:80", "a b"),
    "ignite_host": ("", ",", "a b", "a:0", "a:99999", "a:٣", "a:b"),
    "ignite_nodes": ("a", "a:0", "a b:1", "a:99999999999999999999"),
    "node": ("", "x" * 300),
    "region": ("x" * 300,),
    "site": ("a/b", "ü", "-a", "x" * 41),
    "labels": ("a", "=b", "a=b,c"),
    "domain_labels": ("a", "=b"),
    "domain": ("", "ü", "A", "x" * 25),
    "domain_sites": ("a/b", "ü"),
    "agent_url": ("", "a", "ftp://a", "http://", "http://a:0x", "http://a:99999", "http://a b"),
    "enabler_url": ("", "a", "ftp://a", "http://a:99999"),
    "worker_url": ("", "a", "ftp://a", "http://a:99999"),
    "peers": ("a", "http://a,b", "http://a:99999", "http://a b"),
    "own_urls": ("a", "http://a,b", "http://a:99999"),
    "mqtt_url": ("", "http://a", "mqtt://", "mqtt://a:99999", "mqtt://a b"),
    "mqtt_topics": ("", "a/#/b", ","),
    "restrictions": ("{", "{}", "[" * 9999, "nan"),
    "scheduler": ("",),
    "services": ("", "worker", "agent,agent", "agent,enabler", "agent,"),
    "scheduler_settings": ("", "[", "[]", "null", '{"a": 1}', "nan"),
    "adaptive": ("a", "a=2", "a=nan", "=0.5"),
    "spark_master": ("",),
    "driver_memory": ("", "768", "479m", "0m", "-1m", "1e9m", "9" * 40 + "m", "ü"),
    "node_position": ("1", "a,b", "nan,nan", "91,0", "inf,0", "1,2,3"),
    "remote_write_entity": ("",),
    "influx_entity": ("",),
}


def classes(parent: type[CheckedSettings] = CheckedSettings) -> Iterator[type[CheckedSettings]]:
    for each in parent.__subclasses__():
        yield each
        yield from classes(each)


def types_of(field: FieldInfo) -> set[Any]:
    parts = set(get_args(field.annotation)) or {field.annotation}
    return {get_origin(each) or each for each in parts if each is not type(None)}


def bad_values(name: str, field: FieldInfo) -> set[str]:
    found = {*IN_NO_VALUE, *PARTICULAR.get(name, ())}
    types = types_of(field)
    if types & {int, float}:
        found |= {*OF_NUMBERS}
    elif get_origin(field.annotation) is Literal or types & {bool, time}:
        found |= {*OF_CHOICES}
    elif Path in types:
        found |= {*OF_PATHS}
    return found


COMMANDS = sorted(
    {each for each in classes() if not each.__module__.startswith("tests")},
    key=lambda each: each.__name__,
)
CASES = [
    pytest.param(settings, name, id=f"{settings.__name__}-{name}")
    for settings in COMMANDS
    for name in settings.model_fields
]


STARTED: list[object] = []
RUNNER = typer.testing.CliRunner()


@functools.cache
def built(settings: type[CheckedSettings]) -> typer.Typer:
    app = typer.Typer(rich_markup_mode=None)
    app.command()(command_of(settings, STARTED.append))
    return app


@pytest.fixture(autouse=True)
def clean_place(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """Run in an empty folder, without variables of Mistbow, and restore the umask."""
    (tmp_path / "examples").mkdir()
    (tmp_path / "examples" / "host.insights").touch()
    monkeypatch.chdir(tmp_path)
    for name in [each for each in os.environ if each.startswith("MISTBOW_")]:
        monkeypatch.delenv(name)
    before = os.umask(0o022)
    os.umask(before)
    yield
    os.umask(before)


def run(
    settings: type[CheckedSettings], *words: str, env: dict[str, str] | None = None
) -> tuple[bool, int, str]:
    """Return whether the command started, its exit code and its output."""
    STARTED.clear()
    result = RUNNER.invoke(built(settings), words, env=env or {})
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return bool(STARTED), result.exit_code, result.output


def test_settings_of_all_commands_are_found():
    names = {each.__name__ for each in COMMANDS}
    assert names >= {"AgentSettings", "EnablerSettings", "MonitorSettings", "WorkerSettings"}
    assert names >= {"IgniteSettings", "RunSettings", "StorageSettings"}
    assert set(PARTICULAR) <= {name for each in COMMANDS for name in each.model_fields}


@pytest.mark.parametrize("settings", COMMANDS)
def test_defaults_are_accepted(settings):
    assert run(settings) == (True, 0, "")


@pytest.mark.parametrize(("settings", "name"), CASES)
def test_bad_value_is_refused_with_its_source_and_itself(settings, name):
    variable, flag = f"MISTBOW_{name.upper()}", f"--{name.replace('_', '-')}"
    field = settings.model_fields[name]
    for number, value in enumerate(sorted(bad_values(name, field))):
        sources = [(variable, flag, run(settings, env={variable: value}))]
        if number == 0:
            sources.append((flag, variable, run(settings, f"{flag}={value}")))
        for source, other, ran in sources:
            started, code, output = ran
            case = f"{source} {value[:50]!r}: {output}"
            assert (started, code) == (False, 2), case
            assert re.match(rf"mistbow: {source}\b", output), case
            assert output.count("\n") == 1, case
            assert "Undefined" not in output, case
            assert not re.search(rf"{other}\b(?!_)", output), case
            if not is_secret(field):
                assert repr(value)[1:20] in output, case
            elif len(value.strip()) > 10:
                assert value not in output, case
