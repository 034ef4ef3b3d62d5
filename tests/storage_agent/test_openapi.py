"""Requests generated from the OpenAPI document are answered as it declares, and never by a 5xx."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import GenerationMode

from ignite_server.server import IgniteServer
from mistbow.clock import system_clock
from storage_agent.main import create_app
from storage_agent.settings import AgentSettings
from tests.support.agents import running_agent
from tests.support.ignite import empty
from tests.support.openapi import check_declared

_ENDLESS = r"/streams/.*/events$"
_WAIT = ("follow", "wait_ms")
_OFTEN = 200


def operations() -> Iterator[Any]:
    """Yield the operations of the OpenAPI document, except operations with endless answers.

    Operations with bodies of Arrow or Protobuf are omitted too.
    """
    document = create_app(AgentSettings(home=Path("nowhere"))).openapi()
    return (
        schemathesis.openapi.from_dict(document)
        .exclude(path_regex=_ENDLESS)
        # It has neither parameters nor a token, so it has no invalid requests.
        .exclude(path="/healthz")
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
        store_some(url)
        yield url
        assert httpx.get(f"{url}/readyz").is_success


def store_some(url: str) -> None:
    """Store points and records, so that the answers to reads have items."""
    now = system_clock()
    item = {"metricID": "m", "entityID": "e", "units": "V", "pod": {"name": "web"}}
    points = [{**item, "val": val, "timestamp": now} for val in (1, "NaN", "+Inf", "stale")]
    record = {"key": "k", "val": {"floor": 1}, "timestamp": now}
    table = {"routes": [{"destination": "10.0.0.0/8", "interface": "eth0"}], "timestamp": now}
    schema = {"schema": {"type": "object"}, "indexed": ["floor"]}
    for method, path, body in (
        ("POST", "/put", {"monitoring": points}),
        ("POST", "/analytics/put", {"analytics": [record]}),
        ("PUT", "/app/schemas/room", schema),
        ("POST", "/app/put", {"application": [{**record, "schema": "room"}]}),
        ("POST", "/routing/put", {"routing": [table]}),
    ):
        answer = httpx.request(method, f"{url}{path}", json=body)
        assert answer.is_success, answer.text


def probe_all(url: str, mode: GenerationMode, examples: int, *, derandomize: bool) -> int:
    """Send a number of generated requests to each operation; return the total number."""
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
            kind = response.headers["content-type"][0] if response.content else ""
            operation, document = case.operation.definition.raw, case.operation.schema.raw_schema
            check_declared(document, operation, response.status_code, kind, response.content)

        probe()
    return asked


@pytest.mark.timeout(300)
def test_generated_requests_are_answered_as_declared(url: str) -> None:
    """Test all operations in one test, because each test process would generate all requests."""
    assert probe_all(url, GenerationMode.POSITIVE, 2, derandomize=True) > 100


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("mode", GenerationMode)
def test_many_generated_requests_are_answered_as_declared(url: str, mode: GenerationMode) -> None:
    assert probe_all(url, mode, _OFTEN, derandomize=False) > _OFTEN
