"""The port of a home's Ignite, when the Ignite of another home has the port."""

import re
from pathlib import Path

import httpx

from ignite_server.config import IgniteConfig
from ignite_server.server import IgniteServer
from storage_agent.ignite.folder_id import folder_id_file
from storage_agent.main import create_app
from storage_agent.settings import AgentSettings
from tests.support.agents import running_agent
from tests.support.conditions import eventually
from tests.support.http_server import served


def prepare(home: Path, port: int) -> IgniteConfig:
    """Configure an Ignite of ``home``, as ``mistbow run`` does before it starts Ignite."""
    config = IgniteConfig(home / "ignite", port, 1, 2, "log", 128)
    config.write()
    return config


def test_agent_is_not_ready_at_the_ignite_of_another_home_and_names_port_and_process(
    ignite: IgniteServer, settings: AgentSettings
) -> None:
    config = prepare(settings.home, ignite.port)
    with served(create_app(settings)) as url:
        refusal = re.compile(
            rf"port {ignite.port} belongs to another Ignite \(process {ignite.pid} \(java\)\)"
            rf".*{re.escape(str(config.folder))}.*MISTBOW_IGNITE_PORT"
        )
        eventually(
            lambda: refusal.search(httpx.get(f"{url}/readyz").text), what="the agent refuses Ignite"
        )
        assert httpx.get(f"{url}/readyz").status_code == 503
        # The agent uses another Ignite on the operator's word.
        folder_id_file(config.folder).unlink()
        eventually(lambda: httpx.get(f"{url}/readyz").is_success, what="the agent is ready")


def test_agent_is_ready_at_the_ignite_of_its_home(
    ignite: IgniteServer, settings: AgentSettings
) -> None:
    home = ignite.config.folder.parent
    with running_agent(settings.model_copy(update={"home": home})):
        pass
