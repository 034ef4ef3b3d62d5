"""An agent with the fog's token and a file of other tokens, called over real HTTP."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

from ignite_server.server import IgniteServer
from mistbow.auth.callers import Scope
from mistbow.auth.token_file import new_token_file, read_token_file, write_token_file
from storage_agent.main import create_app
from storage_agent.settings import AgentSettings
from tests.support.conditions import eventually
from tests.support.http_server import served
from tests.support.ignite import empty

FOG = "t0ken-of-the-whole-fog"


@dataclass
class Guarded:
    """The address of an agent, and tokens by name; ``fog`` is the name of the fog's token."""

    url: str
    file: Path
    tokens: dict[str, str] = field(default_factory=lambda: {"fog": FOG})

    def add(self, name: str, *scopes: Scope, prefix: str = "") -> None:
        """Add a token with a name, and write it to the file of tokens."""
        content, token = read_token_file(self.file).with_token(
            name, frozenset(scopes), prefix, None
        )
        write_token_file(self.file, content)
        self.tokens[name] = token

    def ask(
        self, name: str, method: str, path: str, body: Any = None, key: str | None = None
    ) -> httpx.Response:
        """Send a request with the token of a name, or without a token for an unknown name.

        ``key``: the idempotency key of the request. Returns the response.
        """
        headers = {"Authorization": f"Bearer {self.tokens[name]}"} if name in self.tokens else {}
        headers |= {} if key is None else {"Idempotency-Key": key}
        return httpx.request(method, self.url + path, json=body, headers=headers, timeout=10)

    def status(self, name: str, method: str, path: str, body: Any = None) -> int:
        """Send a request with the token of a name; return the status of the answer."""
        return self.ask(name, method, path, body).status_code


@contextmanager
def guarded(home: Path, ignite_port: int, port: int = 0, **settings: Any) -> Iterator[Guarded]:
    """Serve an agent that requires tokens, within the ``with``; yield its address and tokens."""
    home.mkdir(parents=True, exist_ok=True)
    file = home / "tokens.json"
    write_token_file(file, new_token_file())
    given = {"home": home, "node": "n1", "ignite_port": ignite_port, "token": FOG, **settings}
    with served(create_app(AgentSettings(tokens_file=file, **given)), port) as url:
        agent = Guarded(url, file)
        eventually(
            lambda: agent.status("fog", "GET", "/readyz") == 200, what="the service is ready"
        )
        yield agent


@pytest.fixture(scope="module")
def agent(
    ignite_server: IgniteServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Guarded]:
    empty(ignite_server)
    with guarded(tmp_path_factory.mktemp("agent"), ignite_server.port) as agent:
        agent.add("sensor", "ingest")
        agent.add("viewer", "read")
        agent.add("bus", "ingest", "read", prefix="bus-")
        agent.add("operator", "admin")
        yield agent


def put(*entities: str, value: float = 1.0) -> dict[str, Any]:
    """Return a body with a point of each entity."""
    items = [
        {"entityID": entity, "metricID": "m", "val": value, "timestamp": 1_790_000_000_000}
        for entity in entities
    ]
    return {"monitoring": items}


def entities(answer: httpx.Response) -> list[str]:
    """Return the entities in an answer of /get."""
    assert answer.status_code == 200, answer.text
    return sorted(item["entityID"] for node in answer.json()["monitoring"] for item in node["data"])
