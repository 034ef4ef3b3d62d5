"""``mistbow storage repair`` and ``accept-loss``: the requests and arguments of the commands."""

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from fastapi import FastAPI, Request
from typer.core import TyperGroup
from typer.main import get_command
from typer.testing import CliRunner, Result

from command_line.app import app as cli
from command_line.storage import app as storage
from ignite_server.ports import free_ports
from ignite_server.settings import IgniteSettings
from mistbow.errors import UnavailableError
from tests.support.certificates import Authority
from tests.support.http_server import served

# The tests start servers with TLS.
pytestmark = pytest.mark.integration

TOKEN = "the-token-of-the-fog"  # noqa: S105 - of these tests only


class Agent:
    """Answers repairs over TLS with a certificate of the host ``edge-1``."""

    def __init__(self) -> None:
        self.port = 0
        self.tokens: list[str] = []
        self.parameters: list[dict[str, str]] = []

    def app(self) -> FastAPI:
        app = FastAPI()

        @app.post("/streams/{stream:path}/repair")
        async def repair(request: Request) -> dict[str, int]:
            self.tokens.append(request.headers["authorization"])
            self.parameters.append(dict(request.query_params))
            return {"missing": 2, "restored": 2}

        return app


@pytest.fixture
def agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Agent]:
    authority = Authority(tmp_path)
    files = authority.serve("edge-1")
    monkeypatch.setenv("MISTBOW_TLS_CA", str(authority.file))
    agent = Agent()
    with served(agent.app(), ssl_certfile=files.certificate, ssl_keyfile=files.key) as url:
        agent.port = httpx.URL(url).port or 0
        yield agent


def repaired(url: str, *options: str, stream: str = "raw") -> Result:
    command = ["storage", "repair", stream, "--url", url, "--token", TOKEN, *options]
    return CliRunner().invoke(cli, command)


def test_repair_sends_no_token_to_another_host_than_the_named_one(agent: Agent) -> None:
    # This address leads to this machine too, but is not one of loopback.
    found = repaired(f"https://0.0.0.0:{agent.port}")
    assert isinstance(found.exception, UnavailableError)
    assert "IP address mismatch" in found.exception.message
    assert agent.tokens == []


def test_repair_reaches_the_agent_of_this_machine_by_loopback(agent: Agent) -> None:
    found = repaired(f"https://127.0.0.1:{agent.port}")
    assert found.exit_code == 0, found.output
    assert "2 rows were missing, 2 are restored" in found.output
    assert agent.tokens == [f"Bearer {TOKEN}"]


def test_repair_prints_a_whole_line_in_a_pipe(
    agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    found = repaired(f"https://127.0.0.1:{agent.port}", stream="results/" + "group" * 20)
    assert len(found.stdout.splitlines()) == 1, found.output


def test_repair_names_the_site_whose_stream_is_repaired(agent: Agent) -> None:
    url = f"https://127.0.0.1:{agent.port}"
    for options in (("--from", "cloud"), ("--accept-loss",)):
        found = repaired(url, "--site", "edge-1", *options)
        assert found.exit_code == 0, found.output
    assert agent.parameters == [
        {"from": "cloud", "site": "edge-1"},
        {"accept_loss": "true", "site": "edge-1"},
    ]


def test_accept_loss_needs_no_settings_of_services(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    # The identity of the site's services may be lost with their disk.
    monkeypatch.setenv("MISTBOW_IDENTITY_FILE", str(tmp_path / "agent.identity"))
    monkeypatch.setenv("MISTBOW_HOME", str(tmp_path))
    (nobody,) = free_ports(1)
    found = CliRunner().invoke(cli, ["storage", "accept-loss", "--ignite-port", str(nobody)])
    assert isinstance(found.exception, UnavailableError), found.output
    assert f"Ignite at 127.0.0.1:{nobody} cannot be controlled" in found.exception.message


def test_help_of_accept_loss_lists_only_the_settings_of_ignite() -> None:
    command = get_command(storage)
    assert isinstance(command, TyperGroup)
    names = {each.name for each in command.commands["accept-loss"].params}
    assert names == set(IgniteSettings.model_fields)
