"""What the agent's OpenAPI document says that it takes never ends in a 5xx."""

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, settings
from schemathesis import GenerationMode

from mistbow.ignite.server import IgniteServer
from mistbow.settings import AgentSettings
from storage_agent.main import create_app
from tests.storage_agent.conftest import empty
from tests.support.agents import running_agent

_ENDLESS = r"/streams/.*/events$"
_WAIT = ("follow", "wait_ms")

SCHEMA = (
    schemathesis.openapi.from_dict(create_app(AgentSettings(home=Path("nowhere"))).openapi())
    .exclude(path_regex=_ENDLESS)
    # Arrow and Protobuf, which have tests of their own.
    .exclude(path="/streams/{name}", method=["PUT", "POST"])
    .exclude(path="/api/v1/write")
)
SCHEMA.config.generation.update(modes=[GenerationMode.POSITIVE])


@pytest.fixture(scope="module")
def url(ignite_server: IgniteServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    empty(ignite_server)
    settings = AgentSettings(
        home=tmp_path_factory.mktemp("home"), ignite_port=ignite_server.port, collect_routes=False
    )
    with running_agent(settings) as url:
        yield url
        assert httpx.get(f"{url}/readyz").is_success


@SCHEMA.parametrize()
@settings(
    max_examples=2,
    deadline=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
    database=None,
    derandomize=True,
)
def test_nothing_ends_in_a_5xx(case: schemathesis.Case, url: str) -> None:
    for name in _WAIT:
        case.query.pop(name, None)
    response = case.call(base_url=url, timeout=30)
    assert response.status_code < 500, response.text
