"""Points that move to another site: read all the same, deleted there too, never lost."""

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import httpx
import pytest

from mistbow.client.agent import AgentClient, Point
from mistbow.clock import system_clock
from mistbow.errors import UnavailableError
from mistbow.settings import AgentSettings
from storage_agent.fabric.member import Member
from storage_agent.replication.moved import Moved, MovedPoints
from storage_agent.streams.streams import Streams
from tests.storage_agent.conftest import HeldClock
from tests.storage_agent.replication.test_replicas import HEADERS, ask, copied, points, stored
from tests.support.sites import Place, knows, site_of
from tests.support.waiting import eventually

SOON: dict[str, Any] = {"replication_every_ms": 100, "move_after_s": 1, "replication_policy": ""}
ALL = {"metricID": ["cpu"], "latest": False}
CPU = {"metric": ["cpu"]}


def values(client: AgentClient, **body: Any) -> dict[str, list[float]]:
    """Return what a /get of all of a node's points answers, by entity; nothing may be missing."""
    answer = ask(client, "POST", "/get", json={**ALL, **body})
    assert "missing" not in answer, answer
    [node] = answer["monitoring"]
    return {
        item["entityID"]: [each["val"] for each in item["values"]]
        for item in node["data"]
        if item["values"]
    }


def total(client: AgentClient) -> Any:
    return ask(client, "POST", "/query", json={**ALL, "agg": "sum"})


def here(client: AgentClient) -> int:
    """Return how many points of cpu a site has itself."""
    return len([row for row in stored(client, "raw") if row[0] == "cpu"])


def moved_to(client: AgentClient) -> int | None:
    [copy] = ask(client, "GET", "/replication")["copies"]
    return copy.get("moved_to")


def refused(client: AgentClient, method: str, path: str, **more: Any) -> str:
    answer = httpx.request(method, client.url + path, headers=HEADERS, **more)
    assert answer.status_code == 409, answer.text
    return str(answer.json()["error"]["message"])


@pytest.fixture
def moved(places: list[Place]) -> Iterator[tuple[ExitStack, AgentClient, AgentClient, str]]:
    """Agents of a and b; a's points of cpu, 0 to 69, have moved. Closing the stack stops b."""
    a, b, _ = places
    with a.agent(b, **SOON) as at_a, ExitStack() as stack:
        at_b = stack.enter_context(b.agent(**SOON))
        knows(at_a, "b")
        at_a.put([*points(0, 70), *points(0, 7, "mem")])
        copy_id = copied(at_a, "b", filter=CPU, move=True)
        eventually(lambda: here(at_a) == 0, what="all has moved")
        yield stack, at_a, at_b, copy_id


def test_what_has_moved_is_read_as_if_it_had_not(places: list[Place]) -> None:
    a, b, _ = places
    with a.agent(b, **SOON) as at_a, b.agent(**SOON) as at_b:
        knows(at_a, "b")
        at_a.put([*points(0, 70), *points(0, 7, "mem")])
        before, latest = values(at_a), ask(at_a, "POST", "/get", json={"metricID": "cpu"})
        at_a.hold("raw", "insight", 3_600_000, 3_600_000, ["cpu"])
        copy_id = copied(at_a, "b", filter=CPU, move=True)
        eventually(lambda: len(stored(at_b, f"replicas/a/raw/{copy_id}")) == 70)
        # What an insight needs does not move.
        assert moved_to(at_a) is None
        at_a.hold("raw", "insight", 1000, 3_600_000, ["cpu"])
        while here(at_a):
            assert values(at_a) == before
            assert total(at_a) == {"value": sum(range(70))}
        assert moved_to(at_a)
        # What comes late for a time that has moved is there at once, and once.
        at_a.put([*points(70, 7), Point("cpu", "e1", system_clock(), -1.0)])
        assert total(at_a) == {"value": sum(range(77)) - 1}
        assert ask(at_a, "POST", "/get", json={"metricID": "cpu", "entityID": "e2"}) != latest
    with b.agent(**SOON) as at_b, a.agent(b, **SOON) as at_a:
        knows(at_b, "a")
        eventually(lambda: total(at_a) == {"value": sum(range(77)) - 1}, what="after restarts")
        assert values(at_b, nodes=["a"]) == values(at_a)
        counted = at_a.sql("SELECT count(*) AS points FROM historical")
        assert counted["points"].to_pylist() == [85]


def test_who_does_not_answer_is_missing(
    moved: tuple[ExitStack, AgentClient, AgentClient, str],
) -> None:
    stack, at_a, _, _ = moved
    at_a.put([Point("cpu", "e0", system_clock() + 5000, 1.0)])
    stack.close()
    eventually(lambda: not site_of(at_a, "b").reachable)
    until = moved_to(at_a)
    answer = ask(at_a, "POST", "/get", json={**ALL, "from": 7})
    [missing] = answer["missing"]
    assert missing["node"] == "node-a"
    assert f'points of {{"metric":["cpu"]}} from 7 to {until} have moved to b' in missing["reason"]
    [item] = answer["monitoring"][0]["data"]
    assert [each["val"] for each in item["values"]] == [1.0]
    summed = total(at_a)
    assert (summed["value"], len(summed["missing"])) == (1.0, 1)
    with pytest.raises(UnavailableError, match="have moved to b"):
        at_a.sql("SELECT count(*) FROM historical WHERE metric = 'cpu'")
    asked = {"query": "sum_over_time(cpu[1h])", "time": str(system_clock() / 1000 + 10)}
    query = ask(at_a, "GET", "/api/v1/query", params=asked)
    assert [float(each["value"][1]) for each in query["data"]["result"]] == [1.0]
    assert "have moved to b" in query["warnings"][0]
    # The latest values, and what has not moved, are here.
    assert len(ask(at_a, "POST", "/get", json={"metricID": "cpu"})["monitoring"][0]["data"]) == 7
    assert len(values(at_a, metricID=["mem"])) == 7


async def test_nothing_is_forgotten_under_a_read_that_began_before(
    streams: Streams, settings: AgentSettings, clock: HeldClock
) -> None:
    await streams.recover({})
    points = MovedPoints(Member(settings, clock))
    points.open(streams)
    moved = Moved("4f", "b", "of-b", 1, 1)
    with points.reading():
        await points.note(moved.note())
        with points.reading():
            assert points.is_read_as_before(moved)
        assert points.is_read_as_before(moved)
    with points.reading():
        assert not points.is_read_as_before(moved)


def test_what_has_moved_is_deleted_and_given_up_only_on_purpose(
    moved: tuple[ExitStack, AgentClient, AgentClient, str],
) -> None:
    _, at_a, at_b, copy_id = moved
    at_a.put([Point("cpu", "e1", end := system_clock(), 1.0)])
    body = {"entityID": "e1", "from": end}
    ask(at_a, "DELETE", "/monitoring", json=body)
    # What is left of it is elsewhere only.
    [latest] = ask(at_a, "POST", "/get", json={"entityID": "e1", "metricID": "cpu"})["monitoring"]
    assert [each["val"] for each in latest["data"][0]["values"]] == [64.0]
    at_a.delete(entity="e1")
    assert "e1" not in values(at_a)
    eventually(lambda: len(stored(at_b, f"replicas/a/raw/{copy_id}")) == 60)
    rules = [{"match": {"entity": ["e2"]}, "stay_in": ["c"]}]
    path = f"/replication/copies/{copy_id}"
    assert "moved to b" in refused(at_a, "DELETE", path)
    assert "moved to b" in refused(at_a, "PUT", "/replication/restrictions", json=rules)
    assert len(values(at_a)) == 6
    ask(at_a, "DELETE", f"{path}?force=true")
    assert values(at_a) == {}
    # What may not all be there does not move.
    ask(at_a, "PUT", "/replication/restrictions", json=rules)
    want = {"target": "b", "filter": CPU, "move": True}
    assert "keep some of it from b" in refused(at_a, "PUT", "/replication", json=want)
    ask(at_a, "PUT", "/replication/restrictions", json=[])
    labelled = {"target": "b", "filter": {"group": ["g"]}, "move": True}
    answer = httpx.put(f"{at_a.url}/replication", json=labelled, headers=HEADERS)
    assert answer.status_code == 400
