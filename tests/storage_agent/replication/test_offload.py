"""Points that are offloaded to another site: readable, deletable, and never lost."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import httpx
import pytest

from mistbow.client import AgentClient, Point
from mistbow.clock import system_clock
from mistbow.errors import UnavailableError
from storage_agent.membership.fabric_membership import FabricMembership
from storage_agent.replication.offload.offloaded_points import OffloadedPoints
from storage_agent.replication.offload.offloads import Offload
from storage_agent.settings import AgentSettings
from storage_agent.streams.streams import Streams
from tests.storage_agent.conftest import ManualClock
from tests.storage_agent.replication.test_replicas import HEADERS, ask, copied, points, stored
from tests.support.conditions import eventually
from tests.support.sites import AgentSite, site_of, wait_until_reached

SOON: dict[str, Any] = {"replication_every_ms": 100, "move_after_s": 1, "replication_policy": ""}
ALL = {"metricID": ["cpu"], "latest": False}
CPU = {"metric": ["cpu"]}


def complete(read: Callable[[], Any]) -> Any:
    """Repeat a read until its answer lists no missing node; return this answer.

    On a busy machine, a peer can answer too late.
    """

    def answer() -> Any:
        found = read()
        assert "missing" not in found, found
        return found

    return eventually(answer, what="no node is missing")


def values(client: AgentClient, **body: Any) -> dict[str, list[float]]:
    """Read the points of one node by /get, until no node is missing; return entity -> values.

    ``body``: further fields of the request.
    """
    answer = complete(lambda: ask(client, "POST", "/get", json={**ALL, **body}))
    [node] = answer["monitoring"]
    return by_entity(node)


def read_at(client: AgentClient, site: str) -> list[dict[str, list[float]]]:
    """Read the points of a site by /get at another site; return entity -> values for each node."""
    answer = ask(client, "POST", "/get", json={**ALL, "nodes": [site]})
    return [by_entity(node) for node in answer["monitoring"]]


def by_entity(node: dict[str, Any]) -> dict[str, list[float]]:
    return {
        item["entityID"]: [each["val"] for each in item["values"]]
        for item in node["data"]
        if item["values"]
    }


def count(client: AgentClient) -> int | None:
    """Return how many points SQL reads; None while another site is unreachable."""
    try:
        counted = client.sql("SELECT count(*) AS points FROM historical")
    except UnavailableError:
        return None
    points: int = counted["points"][0].as_py()
    return points


def total(client: AgentClient) -> Any:
    return ask(client, "POST", "/query", json={**ALL, "agg": "sum"})


def local_points(client: AgentClient) -> int:
    """Return the number of points of ``cpu`` in the stream ``raw`` of a site."""
    return len([row for row in stored(client, "raw") if row[0] == "cpu"])


def offloaded_to(client: AgentClient) -> int | None:
    [copy] = ask(client, "GET", "/replication")["copies"]
    return copy.get("moved_to")


def refused(client: AgentClient, method: str, path: str, **more: Any) -> str:
    answer = httpx.request(method, client.url + path, headers=HEADERS, **more)
    assert answer.status_code == 409, answer.text
    return str(answer.json()["error"]["message"])


@pytest.fixture
def moved(places: list[AgentSite]) -> Iterator[tuple[ExitStack, AgentClient, AgentClient, str]]:
    """Yield (an exit stack that stops the site b, a client of a, a client of b, the id of a copy).

    The copy has offloaded the points 0 to 69 of ``cpu`` from a to b.
    """
    a, b, _ = places
    with a.agent(b, **SOON) as at_a, ExitStack() as stack:
        at_b = stack.enter_context(b.agent(**SOON))
        wait_until_reached(at_a, "b")
        at_a.put([*points(0, 70), *points(0, 7, "mem")])
        copy_id = copied(at_a, "b", filter=CPU, move=True)
        eventually(lambda: local_points(at_a) == 0, what="all points have moved")
        yield stack, at_a, at_b, copy_id


def test_offloaded_points_are_read_transparently(places: list[AgentSite]) -> None:
    a, b, _ = places
    with a.agent(b, **SOON) as at_a, b.agent(**SOON) as at_b:
        wait_until_reached(at_a, "b")
        at_a.put([*points(0, 70), *points(0, 7, "mem")])
        before, latest = values(at_a), ask(at_a, "POST", "/get", json={"metricID": "cpu"})
        at_a.retain("raw", "insight", 3_600_000, 3_600_000, ["cpu"])
        copy_id = copied(at_a, "b", filter=CPU, move=True)
        eventually(lambda: len(stored(at_b, f"replicas/a/raw/{copy_id}")) == 70)
        # What an insight needs does not move.
        assert offloaded_to(at_a) is None
        at_a.retain("raw", "insight", 1000, 3_600_000, ["cpu"])
        while local_points(at_a):
            assert values(at_a) == before
            assert complete(lambda: total(at_a)) == {"value": sum(range(70))}
        assert offloaded_to(at_a)
        # What comes late for a time that has moved is there at once, and once.
        at_a.put([*points(70, 7), Point("cpu", "e1", system_clock(), -1.0)])
        assert complete(lambda: total(at_a)) == {"value": sum(range(77)) - 1}
        assert ask(at_a, "POST", "/get", json={"metricID": "cpu", "entityID": "e2"}) != latest
    with b.agent(**SOON) as at_b, a.agent(b, **SOON) as at_a:
        wait_until_reached(at_b, "a")
        eventually(lambda: total(at_a) == {"value": sum(range(77)) - 1}, what="a reads from b")
        expected = values(at_a)
        eventually(lambda: read_at(at_b, "a") == [expected], what="b reads from a")
        eventually(lambda: count(at_a) == 85, what="SQL reads from b")


def test_offloaded_points_of_an_unreachable_target_are_missing(
    moved: tuple[ExitStack, AgentClient, AgentClient, str],
) -> None:
    stack, at_a, _, _ = moved
    at_a.put([Point("cpu", "e0", system_clock() + 5000, 1.0)])
    stack.close()
    eventually(lambda: not site_of(at_a, "b").reachable)
    until = offloaded_to(at_a)
    answer = ask(at_a, "POST", "/get", json={**ALL, "from": 7})
    [missing] = answer["missing"]
    assert missing["node"] == "node-a"
    assert (
        f'points of {{"metric":["cpu"]}} from 7 to {until} were offloaded to b' in missing["reason"]
    )
    [item] = answer["monitoring"][0]["data"]
    assert [each["val"] for each in item["values"]] == [1.0]
    summed = total(at_a)
    assert (summed["value"], len(summed["missing"])) == (1.0, 1)
    with pytest.raises(UnavailableError, match="were offloaded to b"):
        at_a.sql("SELECT count(*) FROM historical WHERE metric = 'cpu'")
    asked = {"query": "sum_over_time(cpu[1h])", "time": str(system_clock() / 1000 + 10)}
    query = ask(at_a, "GET", "/api/v1/query", params=asked)
    assert [float(each["value"][1]) for each in query["data"]["result"]] == [1.0]
    assert "were offloaded to b" in query["warnings"][0]
    # The latest values, and what has not moved, are here.
    assert len(ask(at_a, "POST", "/get", json={"metricID": "cpu"})["monitoring"][0]["data"]) == 7
    assert len(values(at_a, metricID=["mem"])) == 7


async def test_offload_waits_for_reads_that_began_before_its_record(
    streams: Streams, settings: AgentSettings, clock: ManualClock
) -> None:
    await streams.recover({})
    points = OffloadedPoints(FabricMembership(settings, clock))
    points.open(streams)
    moved = Offload("4f", "b", "of-b", 1, 1)
    with points.reading():
        await points.record(moved.attributes())
        with points.reading():
            assert points.has_earlier_reads(moved)
        assert points.has_earlier_reads(moved)
    with points.reading():
        assert not points.has_earlier_reads(moved)


def test_offloaded_points_are_deleted_and_withdrawn_only_by_request(
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
    assert "were offloaded to b" in refused(at_a, "DELETE", path)
    assert "were offloaded to b" in refused(at_a, "PUT", "/replication/restrictions", json=rules)
    assert len(values(at_a)) == 6
    ask(at_a, "DELETE", f"{path}?force=true")
    assert values(at_a) == {}
    # What may not all be there does not move.
    ask(at_a, "PUT", "/replication/restrictions", json=rules)
    want = {"target": "b", "filter": CPU, "move": True}
    assert "withhold some series of" in refused(at_a, "PUT", "/replication", json=want)
    ask(at_a, "PUT", "/replication/restrictions", json=[])
    labelled = {"target": "b", "filter": {"group": ["g"]}, "move": True}
    answer = httpx.put(f"{at_a.url}/replication", json=labelled, headers=HEADERS)
    assert answer.status_code == 400
