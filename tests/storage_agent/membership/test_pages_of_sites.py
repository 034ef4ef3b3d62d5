"""Pages of /get and /list over several sites."""

import json
from typing import Any

import httpx
import pytest

from mistbow.client import AgentClient, Point
from mistbow.clock import system_clock
from tests.support.conditions import eventually
from tests.support.sites import TOKEN, AgentSite, site_of, wait_until_reached

Row = tuple[str, str, int]


def ask(place: AgentSite, path: str, body: dict[str, Any], **headers: str) -> httpx.Response:
    headers |= {"Authorization": f"Bearer {TOKEN}"}
    response = httpx.post(f"{place.url}{path}", json=body, headers=headers)
    assert response.status_code == 200, response.text
    return response


def read_pages(
    place: AgentSite, path: str, body: dict[str, Any], limit: int
) -> list[dict[str, Any]]:
    """Return the pages of an answer."""
    found = [ask(place, path, {**body, "limit": limit}).json()]
    while (cursor := found[-1]["next"]) is not None:
        found.append(ask(place, path, {**body, "limit": limit, "cursor": cursor}).json())
    return found


def rows(page: dict[str, Any]) -> list[Row]:
    return [
        (node["node"], series["entityID"], each["timestamp"])
        for node in page["monitoring"]
        for series in node["data"]
        for each in series["values"]
    ]


def put(client: AgentClient, now: int, *entities: str) -> None:
    client.put([Point("cpu", entity, now - at, 1.0) for entity in entities for at in range(10)])


def all_rows(now: int) -> list[Row]:
    sites = {"node-a": ("x", "y"), "node-b": ("u", "z")}
    return [
        (node, entity, now - at)
        for node, entities in sites.items()
        for entity in entities
        for at in reversed(range(10))
    ]


def test_pages_over_sites_have_each_item_once(places: list[AgentSite]) -> None:
    a, b, _ = places
    past = {"from": 0, "nodes": []}
    now = system_clock()
    with b.agent(a) as at_b, a.agent(b) as at_a:
        wait_until_reached(at_b, "a")
        wait_until_reached(at_a, "b")
        put(at_a, now, "y", "x")
        put(at_b, now, "z", "u")
        for place in (a, b):
            for limit in (7, 10, 20, 100):
                read = read_pages(place, "/get", past, limit)
                assert [row for page in read for row in rows(page)] == all_rows(now)
                assert all(len(rows(page)) <= limit for page in read)
        eventually(lambda: len(ask(b, "/list", {"nodes": []}).json()["metric"]) == 4)
        for place in (a, b):
            eventually(lambda: len(ask(place, "/list", {"nodes": []}).json()["metric"]) == 4)  # noqa: B023
            listed = read_pages(place, "/list", {"nodes": []}, 3)
            assert [[each["entityID"] for each in page["metric"]] for page in listed] == [
                ["x", "y", "u"],
                ["z"],
            ]
        # A cursor continues at any agent.
        first = ask(a, "/get", {**past, "limit": 25}).json()
        rest = ask(b, "/get", {**past, "limit": 25, "cursor": first["next"]}).json()
        assert rows(first) + rows(rest) == all_rows(now)
        # The header Accept crosses to another site.
        lines = ask(a, "/get?site=b", {"from": 0}, Accept="application/x-ndjson").text.splitlines()
        assert len(lines) == 21
        body = {**past, "limit": 5}
        elsewhere = ask(a, "/get?site=b", {"from": 0, "limit": 5}).json()["next"]
        refused = httpx.post(
            f"{a.url}/get",
            json={"from": 0, "limit": 5, "cursor": elsewhere},
            headers={"Authorization": f"Bearer {TOKEN}"},
        )
        assert refused.status_code == 400
        assert "site=b" in refused.json()["error"]["hint"]
        assert len(rows(ask(a, "/get", body).json())) == 5


def test_pages_without_an_unreachable_site_name_the_missing_node(places: list[AgentSite]) -> None:
    a, b, _ = places
    now = system_clock()
    with a.agent(b) as at_a:
        with b.agent(a) as at_b:
            wait_until_reached(at_a, "b")
            put(at_a, now, "x")
            put(at_b, now, "y")
            first = ask(a, "/get", {"from": 0, "nodes": [], "limit": 10}).json()
        eventually(lambda: not site_of(at_a, "b").reachable)
        last = ask(a, "/get", {"from": 0, "nodes": [], "limit": 10, "cursor": first["next"]}).json()
        assert (rows(last), last["next"]) == ([], None)
        assert [each["node"] for each in last["missing"]] == ["node-b"]


def test_pages_of_an_unreachable_site_come_from_its_replica(
    places: list[AgentSite], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("storage_agent.timeseries.row_answers._PAGE_ROWS", 6)
    a, b, _ = places
    now = system_clock()
    body = {"from": 0, "nodes": []}
    with a.agent(b) as at_a:
        with b.agent(a) as at_b:
            wait_until_reached(at_a, "b")
            wait_until_reached(at_b, "a")
            put(at_a, now, "y", "x")
            put(at_b, now, "z", "u")
            at_b.operations.request_copy("a")
            eventually(lambda: [r.rows for r in at_a.operations.replication().replicas] == [20])
            # The source answers the first pages, and the replica answers the others.
            first = ask(a, "/get", {**body, "limit": 27}).json()
        eventually(lambda: not site_of(at_a, "b").reachable)
        rest = ask(a, "/get", {**body, "limit": 27, "cursor": first["next"]}).json()
        assert rows(first) + rows(rest) == all_rows(now)
        assert rest["monitoring"][0]["from"] == "a"
        for limit in (7, 20, 100):
            read = read_pages(a, "/get", body, limit)
            assert [row for page in read for row in rows(page)] == all_rows(now)
        *lines, end = ask(a, "/get", body, Accept="application/x-ndjson").text.splitlines()
        assert len(lines) == 40
        assert [each["node"] for each in json.loads(end)["end"]["replicas"]] == ["node-b"]
