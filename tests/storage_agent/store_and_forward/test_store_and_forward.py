"""Points that arrive while Ignite is away: spooled on the node's disk, and stored afterwards."""

import secrets
import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path

import httpx
import msgspec
import pytest

from ignite_server.server import IgniteServer
from mistbow.client.agent import AgentClient
from mistbow.client.agent_model import Point
from mistbow.clock import system_clock
from mistbow.streams.json_numbers import to_json
from mistbow.streams.schemas import POINTS
from storage_agent.http.points import PutBody
from storage_agent.settings import AgentSettings
from storage_agent.store_and_forward.store_and_forward import PointWriter, StoreAndForward
from storage_agent.timeseries.catalogue import Catalogue
from storage_agent.timeseries.points import PointEncoder
from tests.storage_agent.streams.conftest import opener as opener
from tests.storage_agent.streams.opener import Opener, times
from tests.support.conditions import eventually
from tests.support.services import Service, storage_agent


@pytest.fixture(scope="module")
def ignite_alone(
    processes: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[IgniteServer]:
    """Start an Ignite for this module only, because its tests kill it; yield the server."""
    with IgniteServer(tmp_path_factory.mktemp("ignite"), durability="log") as server:
        yield server


@pytest.fixture
def service(ignite_alone: IgniteServer, tmp_path: Path) -> Iterator[Service]:
    with storage_agent(tmp_path, ignite_alone.port, node="n1", spool_mb=1) as running:
        yield running


def put(
    url: str, entity: str, values: Sequence[float | str], key: str | None = None, at: int = 0
) -> httpx.Response:
    """Store values from a time (ms) on; 0: the present time."""
    begin = at or system_clock()
    items = [
        {"metricID": "m", "entityID": entity, "val": value, "timestamp": begin + number}
        for number, value in enumerate(values)
    ]
    headers = {} if key is None else {"Idempotency-Key": key}
    return httpx.post(f"{url}/put", json={"monitoring": items}, headers=headers, timeout=30)


def stored(url: str, entity: str) -> list[float]:
    """Return the values of an entity in the order of their times."""
    client = AgentClient(url)
    try:
        node, *_ = client.get("m", entity, latest=False)
        return [point.value for series in node.data for point in series.values]
    finally:
        client.close()


def test_spooled_points_survive_restarts_and_are_stored_once_in_order(
    service: Service, ignite_alone: IgniteServer
) -> None:
    url = service.url
    assert put(url, "a", range(3)).status_code == 200
    ignite_alone.kill()
    eventually(lambda: put(url, "b", range(1)).status_code == 202, what="Ignite is missed")
    now = system_clock()
    for number in range(10):
        answer = put(url, "a", range(3 + number, 4 + number), f"key {number}", now + number)
        assert answer.status_code == 202
        assert "until Ignite is back" in answer.json()["message"]
    assert put(url, "odd", ["NaN", "-Inf", "stale"]).status_code == 202
    # Sent again, as by a sender that got no answer; and the agent dies in between.
    service.kill()
    service.start(ready=False)
    assert put(url, "a", range(12, 13), "key 9", now + 9).status_code == 202
    assert put(url, "a", range(99, 100), "key 9", now + 9).status_code == 422
    refused = put(url, "a", range(1)).json()
    assert refused["result"] == "OK"
    ignite_alone.start()
    service.wait()
    eventually(lambda: len(stored(url, "a")) == 14, what="all are stored")
    assert sorted(stored(url, "a")) == [0.0, *map(float, range(13))]
    eventually(lambda: len(stored(url, "odd")) == 3, what="values that JSON lacks are stored")
    assert [to_json(value) for value in stored(url, "odd")] == ["NaN", "-Inf", "stale"]
    eventually(
        lambda: put(url, "c", range(1)).status_code == 200, what="points are stored at once again"
    )
    assert sorted(stored(url, "a")) == [0.0, *map(float, range(13))]


def test_damaged_spool_is_reported_and_its_good_part_is_delivered(
    service: Service, ignite_alone: IgniteServer, tmp_path: Path
) -> None:
    url = service.url
    ignite_alone.kill()
    eventually(lambda: put(url, "g", range(1)).status_code == 202, what="Ignite is missed")
    for number in range(1, 20):
        assert put(url, "g", [number], f"damage {number}").status_code == 202
    service.kill()
    with sqlite3.connect(tmp_path / "agent" / "spool.db") as file:
        flip = "update bodies set body = replace(body, 'monitoring', 'honitoring') where key like ?"
        assert file.execute(flip, ("%damage 7",)).rowcount == 1
    file.close()
    service.start(ready=False)
    ignite_alone.start()
    service.wait()
    eventually(lambda: len(stored(url, "g")) == 19, what="the others are stored")
    assert sorted(stored(url, "g")) == [float(each) for each in range(20) if each != 7]
    [warning] = eventually(lambda: httpx.get(f"{url}/readyz").json().get("warnings"))
    [damaged] = (tmp_path / "agent").glob("spool.db.damaged-*")
    assert str(damaged) in warning
    assert "delete this file" in warning
    assert "mistbow_agent_spool_damaged_files 1.0" in httpx.get(f"{url}/metrics").text
    assert "spool_damaged" in (tmp_path / "logs" / "agent.jsonl").read_text()
    damaged.unlink()
    eventually(
        lambda: "mistbow_agent_spool_damaged_files 0.0" in httpx.get(f"{url}/metrics").text,
        what="the damage is seen to",
    )
    assert "warnings" not in httpx.get(f"{url}/readyz").json()


def test_full_spool_rejects_points(service: Service, ignite_alone: IgniteServer) -> None:
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


def test_agent_with_when_away_refuse_rejects_points(
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


async def test_spooled_body_that_the_store_refuses_is_set_aside(
    opener: Opener, tmp_path: Path
) -> None:
    stream = await opener.open(POINTS, 1000)
    settings = AgentSettings(home=tmp_path)
    encoder = PointEncoder(settings, Catalogue())
    writer = PointWriter(encoder, stream.writer, await stream.writer.claim_timed())
    available: list[PointWriter] = []

    points = StoreAndForward(
        settings,
        lambda: available[0] if available else None,
        lambda key: stream.log.keys.get(key) is not None,
    )
    now, text = system_clock(), secrets.token_hex
    # Random texts, so that compression does not make them fit into a value of Ignite.
    large = PutBody(
        [Point("m", f"e{n}", now, 1, name=text(2048), desc=text(2048)) for n in range(910)]
    )
    small = [PutBody([Point("m", "e", now + n, n)]) for n in range(2)]
    for body in (small[0], large, small[1]):
        assert (await points.put(body, None)).spooled
    available.append(writer)
    while await points.drain() == 0:
        pass
    assert points.spooled_bodies == 0
    assert await times(stream.log) == [now, now + 1]
    [file] = (tmp_path / "agent").glob("spool.db.damaged-*.json")
    assert file.read_bytes() == msgspec.json.encode(large)
    [warning] = await points.spool_warnings()
    assert str(file) in warning
    assert "refused by the store" in warning
    await points.close()
