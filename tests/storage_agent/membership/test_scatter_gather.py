"""Scatter-gather: each site answers for its data, and unreachable sites are listed as missing."""

from collections.abc import Callable
from typing import Any

import httpx
import pytest

from mistbow.client import AgentClient, Point
from mistbow.clock import system_clock
from mistbow.errors import MistbowError
from storage_agent.membership.proxy import REQUESTING_SITE
from storage_agent.records.bodies import RecordReadBody
from storage_agent.records.store import RecordStore
from tests.support.conditions import eventually
from tests.support.sites import TOKEN, AgentSite, site_of, wait_until_reached

Ask = Callable[[str, dict[str, Any]], dict[str, Any]]


def asking(place: AgentSite) -> Ask:
    def ask(path: str, body: dict[str, Any]) -> dict[str, Any]:
        headers = {"Authorization": f"Bearer {TOKEN}"}
        response = httpx.post(f"{place.url}{path}", json=body, headers=headers)
        assert response.status_code == 200, response.text
        answer: dict[str, Any] = response.json()
        return answer

    return ask


def put(client: AgentClient, entity: str, *values: float) -> None:
    now = system_clock()
    client.put(
        [
            Point("cpu", entity, now - 10 * (len(values) - number), value)
            for number, value in enumerate(values)
        ]
    )


def test_get_and_query_gather_points_of_sites(places: list[AgentSite]) -> None:
    a, b, _ = places
    ask = asking(a)
    past = {"from": 0, "metricID": ["cpu"], "nodes": []}
    with a.agent(b) as at_a:
        with b.agent() as at_b:
            wait_until_reached(at_a, "b")
            put(at_a, "x", 1, 2)
            put(at_b, "y", 3, 10)
            assert ask("/query", {**past, "agg": "avg"}) == {"value": 4.0}
            assert ask("/query", {**past, "agg": "max"}) == {"value": 10.0}
            assert ask("/query", {**past, "agg": "sum", "nodes": ["b"]}) == {"value": 13.0}
            assert ask("/query", {"nodes": [], "agg": "min"}) == {"value": 2.0}
            both = {
                "metric": [
                    {"node": "node-a", "metricID": "cpu", "entityID": "x"},
                    {"node": "node-b", "metricID": "cpu", "entityID": "y"},
                ]
            }
            eventually(lambda: ask("/list", {"nodes": []}) == both)
        eventually(lambda: not site_of(at_a, "b").reachable)
        listed = ask("/list", {"nodes": []})
        [source] = listed.pop("replicas")
        assert (source["node"], source["from"]) == ("node-b", "a")
        assert listed == both
        answer = ask("/query", {**past, "agg": "avg"})
        assert answer["value"] == 1.5
        assert [each["node"] for each in answer["missing"]] == ["node-b"]
        assert ask("/nodes", {}) == {
            "nodes": [
                {"hostname": "node-a", "cluster_head": True},
                {"hostname": "node-b", "cluster_head": False},
            ]
        }
        nobody = [{"node": "z", "reason": "no node or site has this name"}]
        assert ask("/list", {"nodes": ["z"]}) == {"metric": [], "missing": nobody}
        assert ask("/query", {"nodes": ["z"], "agg": "sum"}) == {"value": None, "missing": nobody}


def test_get_gathers_records_of_sites(places: list[AgentSite]) -> None:
    a, b, _ = places
    at, there = asking(a), asking(b)
    both = {"nodes": [], "key": ["k", "only-b"]}
    with a.agent(b) as at_a:
        with b.agent():
            wait_until_reached(at_a, "b")
            at("/app/put", {"app": [{"key": "k", "val": 1, "timestamp": 5}]})
            newer = [{"key": key, "val": 2, "timestamp": 6} for key in ("k", "only-b")]
            there("/app/put", {"app": newer})
            values = [{"timestamp": 6, "val": 2}]
            latest = [{"key": key, "values": values} for key in ("k", "only-b")]
            assert at("/app/get", both) == {"application": latest}
            past = at("/app/get", {**both, "from": 0})["application"]
            assert [value["val"] for value in past[0]["values"]] == [1, 2]
            far = {"node": "far", "routes": [{"destination": "::/0"}], "timestamp": 7}
            there("/routing/put", {"routing": [far]})
            found = at("/routing/get", {"nodes": ["far"]})
            assert [each["node"] for each in found["routing"]] == ["far"]
        eventually(lambda: not site_of(at_a, "b").reachable)
        left = at("/app/get", both)
        assert [each["key"] for each in left["application"]] == ["k"]
        assert [each["node"] for each in left["missing"]] == ["node-b"]


def test_scatter_lists_a_failing_site_as_missing(
    places: list[AgentSite], monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b, _ = places
    at = asking(a)
    whole = RecordStore.get

    async def failing(store: RecordStore, word: str, body: RecordReadBody) -> bytes:
        match (REQUESTING_SITE.get(), body.key):
            case ("a", "broken"):
                raise MistbowError("something is broken here")
            case ("a", "odd"):
                return b'{"of": "another version"}'
        return await whole(store, word, body)

    monkeypatch.setattr(RecordStore, "get", failing)
    with a.agent(b) as at_a, b.agent():
        wait_until_reached(at_a, "b")
        for key, reason in (("broken", "something is broken here"), ("odd", "cannot be decoded")):
            at("/app/put", {"app": [{"key": key, "val": 1, "timestamp": 5}]})
            answer = at("/app/get", {"key": key, "nodes": []})
            assert [each["key"] for each in answer["application"]] == [key]
            [missing] = answer["missing"]
            assert missing["node"] == "node-b"
            assert reason in missing["reason"]


def test_query_skips_sites_without_the_schema(places: list[AgentSite]) -> None:
    a, b, _ = places
    at, there = asking(a), asking(b)
    headers = {"Authorization": f"Bearer {TOKEN}"}

    def refused(**more: Any) -> dict[str, Any]:
        response = httpx.post(
            f"{a.url}/app/query", json={"schema": "s", "nodes": [], **more}, headers=headers
        )
        assert response.status_code == 404, response.text
        error: dict[str, Any] = response.json()["error"]
        return error

    with a.agent(b) as at_a:
        with b.agent():
            wait_until_reached(at_a, "b")
            assert "there is no schema s" in refused()["message"]
            url = f"{b.url}/app/schemas/s"
            httpx.put(url, json={"schema": {}}, headers=headers).raise_for_status()
            there("/app/put", {"app": [{"key": "k", "val": 1, "timestamp": 5, "schema": "s"}]})
            found = at("/app/query", {"schema": "s", "nodes": []})
            assert found == {"application": [{"key": "k", "values": [{"timestamp": 5, "val": 1}]}]}
            assert refused(nodes=["a"])["message"] == "there is no schema s"
        eventually(lambda: not site_of(at_a, "b").reachable)
        assert [each["node"] for each in refused()["details"]["missing"]] == ["node-b"]
