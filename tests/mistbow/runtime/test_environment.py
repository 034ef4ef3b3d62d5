"""The environment of child processes, which lacks the secrets of the settings."""

from typing import get_args

import pytest
from pydantic import SecretStr

from ignite_server.settings import IgniteSettings
from mistbow.runtime.environment import inherited_environment
from storage_agent.settings import AgentSettings
from suite.settings import RunSettings, StorageSettings

SETTINGS = (AgentSettings, IgniteSettings, RunSettings, StorageSettings)
SECRETS = {
    f"MISTBOW_{name.upper()}"
    for settings in SETTINGS
    for name, field in settings.model_fields.items()
    if SecretStr in get_args(field.annotation)
}


def test_environment_lacks_every_secret_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    assert {"MISTBOW_TOKEN", "MISTBOW_MQTT_URL"} <= SECRETS
    secrets = {*SECRETS, "MISTBOW_TOKEN_FILE"}
    for name in secrets:
        monkeypatch.setenv(name, "secret")
    monkeypatch.setenv("MISTBOW_NODE", "n1")
    assert inherited_environment()["MISTBOW_NODE"] == "n1"
    assert not secrets & inherited_environment().keys()
    assert inherited_environment(secrets) == {}


def test_environment_has_the_named_variables_that_are_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SET", "1")
    monkeypatch.setenv("OTHER", "2")
    monkeypatch.delenv("UNSET", raising=False)
    assert inherited_environment(("SET", "UNSET")) == {"SET": "1"}
