"""Announced addresses of workers: what the enabler sends there."""

from pathlib import Path

import httpx
import pytest

from analytics.client.enabler import EnablerClient
from tests.analytics_enabler.conftest import running_enabler
from tests.analytics_enabler.spark_worker import TEST_TIMEOUT_S, SparkWorker, eventually
from tests.analytics_enabler.support import without_digest
from tests.support.recorder import Recorder

pytestmark = pytest.mark.timeout(TEST_TIMEOUT_S)


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


def test_fragments_stay_where_they_run_if_a_new_worker_does_not_answer_as_a_worker(
    enabler: EnablerClient, worker: SparkWorker, agent_url: str
) -> None:
    deployment_id = enabler.submit("a = COMPUTE AVG(x) EVERY 5 s").deployment_id
    eventually(lambda: worker.fragments)
    with Recorder() as listener:
        capacity = {"cores": 64, "memory_mb": 99_999, "cores_free": 64, "memory_free_mb": 99_999}
        body = {"name": "w0", "url": listener.url, **capacity}

        def contacted_often() -> bool:
            httpx.put(f"{agent_url}/workers/w0", json=body).raise_for_status()
            assert enabler.show(deployment_id).status != "waiting for a worker"
            return len(listener.requests()) > 3

        eventually(contacted_often, what="the enabler has contacted it four times")
        later = enabler.submit("b = COMPUTE MAX(x) EVERY 5 s").deployment_id
        eventually(lambda: f"{later}/b/1" in map(without_digest, worker.insights))
        assert len(worker.started) == 2
