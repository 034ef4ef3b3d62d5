"""Heartbeats of strangers to an agent without a token: the agent stores little of them."""

import httpx
import msgspec
import pytest
import structlog

from mistbow.errors import ConflictError
from storage_agent.membership.heartbeat import Heartbeat
from tests.support.simulated_fog import SimulatedFog

NUMBER = 300


def heartbeat(site: str, port: int) -> Heartbeat:
    return Heartbeat(site=site, node="n", url=f"http://127.0.0.1:{port}", instance=f"i{port}")


def test_agents_that_claim_this_site_are_logged_up_to_a_bound() -> None:
    peers = SimulatedFog(["a"]).peers_of("a")
    with structlog.testing.capture_logs() as logged:
        for port in range(1, NUMBER):
            with pytest.raises(ConflictError, match="claims to be the site a"):
                peers.receive_heartbeat(heartbeat("a", port), is_authenticated=False)
    assert 0 < len(logged) <= 100


def test_strangers_get_no_metrics(url: str) -> None:
    for port in range(1, 10):
        sent = msgspec.json.encode(heartbeat(f"stranger-{port}", port))
        answer = httpx.post(f"{url}/fabric/greet", content=sent)
        assert answer.is_success
    assert "stranger-" not in httpx.get(f"{url}/metrics").text
