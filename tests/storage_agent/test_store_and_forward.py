"""Points that come while Ignite is away: spooled on the node's disk, stored when it is back."""

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from mistbow.client.agent import AgentClient
from mistbow.clock import system_clock
from mistbow.ignite.server import IgniteServer
from tests.support.services import Service, storage_agent
from tests.support.waiting import eventually


@pytest.fixture(scope="module")
def ignite_alone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[IgniteServer]:
    """An Ignite of this module's own, for it is killed."""
    with IgniteServer(tmp_path_factory.mktemp("ignite"), durability="log") as server:
        yield server


@pytest.fixture
def service(ignite_alone: IgniteServer, tmp_path: Path) -> Iterator[Service]:
    with storage_agent(tmp_path, ignite_alone.port, node="n1", spool_mb=1) as running:
        yield running


def put(url: str, entity: str, values: range, key: str | None = None) -> httpx.Response:
    now = system_clock()
    items = [
        {"metricID": "m", "entityID": entity, "val": value, "timestamp": now + value}
        for value in values
    ]
    headers = {} if key is None else {"Idempotency-Key": key}
    return httpx.post(f"{url}/put", json={"monitoring": items}, headers=headers, timeout=30)


def stored(url: str, entity: str) -> list[float]:
    """Return the values of an entity in the order of their times."""
    client = AgentClient(url)
    try:
        [node] = client.get("m", entity, latest=False)
        return [point.value for series in node.data for point in series.values]
    finally:
        client.close()


def test_points_wait_through_restarts_and_are_stored_once_in_their_order(
    service: Service, ignite_alone: IgniteServer
) -> None:
    url = service.url
    assert put(url, "a", range(3)).status_code == 200
    ignite_alone.kill()
    eventually(lambda: put(url, "b", range(1)).status_code == 202, what="Ignite is missed")
    for number in range(10):
        answer = put(url, "a", range(3 + number, 4 + number), f"key {number}")
        assert answer.status_code == 202
        assert "until Ignite is back" in answer.json()["message"]
    # Sent again, as by a sender that got no answer; and the agent dies in between.
    service.kill()
    service.start(ready=False)
    assert put(url, "a", range(12, 13), "key 9").status_code == 202
    refused = put(url, "a", range(1)).json()
    assert refused["result"] == "OK"
    ignite_alone.start()
    service.wait()
    eventually(lambda: len(stored(url, "a")) == 14, what="all are stored")
    assert sorted(stored(url, "a")) == [0.0, *map(float, range(13))]
    eventually(
        lambda: put(url, "c", range(1)).status_code == 200, what="points are stored at once again"
    )
    assert sorted(stored(url, "a")) == [0.0, *map(float, range(13))]


def test_a_spool_that_is_full_refuses(service: Service, ignite_alone: IgniteServer) -> None:
    url = service.url
    ignite_alone.kill()
    try:
        eventually(lambda: put(url, "d", range(1)).status_code == 202, what="Ignite is missed")
        answers = [put(url, "d", range(2000)).status_code for _ in range(20)]
        assert answers[0] == 202
        assert answers[-1] == 507
        answer = put(url, "d", range(2000)).json()["error"]
        assert "MISTBOW_SPOOL_MB" in answer["hint"]
        bad = httpx.post(f"{url}/put", json={"monitoring": [{"metricID": "m"}]})
        assert bad.status_code == 400
    finally:
        ignite_alone.start()
    waiting = answers.count(202) * 2000
    eventually(lambda: len(stored(url, "d")) > waiting, what="what was taken is stored")


def test_points_are_refused_where_the_user_says_so(
    ignite_alone: IgniteServer, tmp_path: Path
) -> None:
    with storage_agent(tmp_path, ignite_alone.port, when_away="refuse") as service:
        assert put(service.url, "e", range(1)).status_code == 200
        ignite_alone.kill()
        try:
            answer = put(service.url, "e", range(1))
            assert answer.status_code == 503
            assert "Retry-After" in answer.headers
            assert not (tmp_path / "agent" / "spool.db").exists()
        finally:
            ignite_alone.start()
