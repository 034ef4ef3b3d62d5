"""``mistbow storage repair``: whom the command sends the token to."""

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from fastapi import FastAPI, Request
from typer.testing import CliRunner, Result

from command_line.app import app as cli
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

    def app(self) -> FastAPI:
        app = FastAPI()

        @app.post("/streams/raw/repair")
        async def repair(request: Request) -> dict[str, int]:
            self.tokens.append(request.headers["authorization"])
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


def repaired(url: str) -> Result:
    return CliRunner().invoke(cli, ["storage", "repair", "raw", "--url", url, "--token", TOKEN])


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
