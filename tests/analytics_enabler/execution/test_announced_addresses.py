"""Announced addresses of workers: what the enabler sends there."""

from pathlib import Path

import httpx

from tests.analytics_enabler.conftest import running_enabler
from tests.support.conditions import eventually
from tests.support.recorder import Recorder


def test_listener_announced_as_worker_receives_only_challenges(
    agent_url: str, tmp_path: Path
) -> None:
    with Recorder() as listener, running_enabler(agent_url, tmp_path) as enabler:
        capacity = {"cores": 1, "memory_mb": 1, "cores_free": 1, "memory_free_mb": 1}
        body = {"name": "w", "url": listener.url, **capacity}

        def contacted_twice() -> bool:
            httpx.put(f"{agent_url}/workers/w", json=body).raise_for_status()
            return len(listener.requests()) > 1

        eventually(contacted_twice, what="the enabler has contacted it twice")
        assert set(listener.requests()) == {b"POST /challenge HTTP/1.1"}
        assert httpx.get(f"{enabler}/healthz").is_success
