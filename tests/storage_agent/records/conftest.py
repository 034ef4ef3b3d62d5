"""One agent for the tests of records; each test stores records under keys of its own."""

from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest

from ignite_server.server import IgniteServer
from storage_agent.settings import AgentSettings
from tests.support.agents import running_agent
from tests.support.ignite import empty

NOW = 1_795_262_400_000

Answer = dict[str, Any]
Post = Callable[[str, object], Answer]


@pytest.fixture(scope="module")
def records_settings(
    ignite_server: IgniteServer, tmp_path_factory: pytest.TempPathFactory
) -> AgentSettings:
    empty(ignite_server)
    return AgentSettings(
        home=tmp_path_factory.mktemp("home"),
        node="n1",
        ignite_port=ignite_server.port,
        collect_routes=False,
    )


@pytest.fixture(scope="module")
def url(records_settings: AgentSettings) -> Iterator[str]:
    with running_agent(records_settings) as url:
        yield url


def posting(url: str) -> Post:
    def post(path: str, body: object) -> Answer:
        response = httpx.post(f"{url}{path}", json=body)
        assert response.status_code == 200, response.text
        answer: Answer = response.json()
        return answer

    return post


@pytest.fixture
def post(url: str) -> Post:
    return posting(url)


def item(key: str, val: object, ts: int = NOW, **more: object) -> Answer:
    return {"key": key, "val": val, "timestamp": ts, **more}


def records_of(answer: Answer, word: str = "application") -> dict[str, list[tuple[int, Any]]]:
    """Return the records of an answer: key -> (time in ms, value) of each record."""
    return {
        each["key"]: [(value["timestamp"], value["val"]) for value in each["values"]]
        for each in answer[word]
    }
