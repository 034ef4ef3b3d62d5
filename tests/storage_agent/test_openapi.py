"""What the agent's OpenAPI document says that it takes never ends in a 5xx."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import GenerationMode

from mistbow.ignite.server import IgniteServer
from mistbow.settings import AgentSettings
from storage_agent.main import create_app
from tests.support.agents import running_agent
from tests.support.ignite import empty

_ENDLESS = r"/streams/.*/events$"
_WAIT = ("follow", "wait_ms")
_OFTEN = 200


def operations() -> Iterator[Any]:
    """Yield what the document tells of, but what never ends and what has tests of its own."""
    document = create_app(AgentSettings(home=Path("nowhere"))).openapi()
    return (
        schemathesis.openapi.from_dict(document)
        .exclude(path_regex=_ENDLESS)
        # Arrow and Protobuf.
        .exclude(path="/streams/{name}", method=["PUT", "POST"])
        .exclude(path="/api/v1/write")
        .get_all_operations()
    )


@pytest.fixture(scope="module")
def url(ignite_server: IgniteServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    empty(ignite_server)
    settings = AgentSettings(
        home=tmp_path_factory.mktemp("home"), ignite_port=ignite_server.port, collect_routes=False
    )
    with running_agent(settings) as url:
        yield url
        assert httpx.get(f"{url}/readyz").is_success


def probe_all(url: str, mode: GenerationMode, examples: int, *, derandomize: bool) -> int:
    """Ask of every operation so many examples; returns how many in all."""
    asked = 0
    for found in operations():
        operation = found.ok()

        @given(case=operation.as_strategy(generation_mode=mode))
        @settings(
            max_examples=examples,
            deadline=None,
            phases=[Phase.explicit, Phase.generate],
            suppress_health_check=list(HealthCheck),
            database=None,
            derandomize=derandomize,
        )
        def probe(case: schemathesis.Case) -> None:
            nonlocal asked
            asked += 1
            if isinstance(case.query, dict):
                for name in _WAIT:
                    case.query.pop(name, None)
            response = case.call(base_url=url, timeout=30)
            assert response.status_code < 500, response.text

        probe()
    return asked


@pytest.mark.timeout(300)
def test_nothing_ends_in_a_5xx(url: str) -> None:
    """All in one test: as one for each operation, they would be worked out by every process."""
    assert probe_all(url, GenerationMode.POSITIVE, 2, derandomize=True) > 100


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("mode", GenerationMode)
def test_nothing_ever_ends_in_a_5xx(url: str, mode: GenerationMode) -> None:
    assert probe_all(url, mode, _OFTEN, derandomize=False) > _OFTEN
