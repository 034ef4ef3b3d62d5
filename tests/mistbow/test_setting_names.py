"""The warnings about environment variables with the prefix of settings and an unknown name."""

import httpx
import pytest

from analytics_enabler.settings import EnablerSettings
from analytics_worker.settings import WorkerSettings
from ignite_server.settings import IgniteSettings
from mistbow.setting_names import SETTINGS, unknown_settings
from monitoring_agent.settings import MonitorSettings
from storage_agent.settings import AgentSettings
from suite.settings import NodeSettings, RunSettings, StorageSettings
from tests.support.http_server import plain_service, served

CLASSES = (AgentSettings, EnablerSettings, IgniteSettings, MonitorSettings, WorkerSettings)
COMMANDS = (NodeSettings, RunSettings, StorageSettings)


def test_names_of_all_settings_are_known() -> None:
    assert {name for each in (*CLASSES, *COMMANDS) for name in each.model_fields} == SETTINGS


def test_only_unknown_names_are_warned_of() -> None:
    variables = {
        "MISTBOW_AGNT_PORT": "5",
        "Mistbow_Site": "a",
        "MISTBOW_XYZZY": "1",
        "MISTBOW_RUN": "7",
        "MISTBOW_AGENT_SERVICE_HOST": "10.0.0.1",
        "MISTBOW_ENABLER_PORT_8000_TCP_ADDR": "10.0.0.1",
        "MISTBOW_CLOUD_AGENT_PORT": "tcp://10.0.0.1:8300",
        "OTHER": "1",
    }
    assert unknown_settings(variables) == [
        "MISTBOW_AGNT_PORT is no setting, and has no effect. Did you mean MISTBOW_AGENT_PORT?",
        "MISTBOW_XYZZY is no setting, and has no effect.",
    ]
    assert len(unknown_settings({f"MISTBOW_{n}" * 99: "" for n in range(99)})) == 10


def test_readiness_names_unknown_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MISTBOW_AGENTPORT", "5")
    with served(plain_service(AgentSettings())) as url:
        answer = httpx.get(f"{url}/readyz")
    assert answer.status_code == 200
    [warning] = answer.json()["warnings"]
    assert "MISTBOW_AGENT_PORT?" in warning
