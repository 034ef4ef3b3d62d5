"""Live events of the enabler, with a real storage agent, whose results the tests write."""

from typing import Any

import httpx
import pyarrow as pa
import pytest

from analytics.client.enabler import EnablerClient
from analytics_enabler.live import result_hub
from mistbow.client.agent import AgentClient
from mistbow.errors import InvalidRequestError
from mistbow.streams.schemas import RESULT_ROWS
from tests.analytics_enabler.conftest import StartEnabler
from tests.analytics_enabler.live.reader import reading
from tests.support.conditions import eventually

QUERIES = "a = COMPUTE AVG(x) BY node EVERY 1 s; b = COMPUTE MAX(x) EVERY 1 s"
RESULTS = "results/all.fair"
STATES = {"topics": "states"}
"""The topic whose first event comes after the client is subscribed to all results."""


class Deployed:
    """A deployment, and a writer of its results: ``write(name, tick, value)``."""

    def __init__(self, enabler: EnablerClient, agent: AgentClient, queries: str = QUERIES) -> None:
        self._agent = agent
        self.id = enabler.submit(queries).deployment_id
        shown = enabler.show(self.id).insights
        self._uids = {each.name: each.uid for each in shown}
        self.first = max(each.first_tick for each in shown)
        agent.create_stream(RESULTS, RESULT_ROWS)

    def write(
        self, name: str, tick: int, value: float | None, revision: int = 0, stream: str = RESULTS
    ) -> None:
        ts = self.first + 1000 * tick
        row = {"insight": self._uids[name], "key": "{}", "ts": ts, "value": value}
        row |= {"revision": revision, "computed_at": ts + 5}
        self._agent.append(stream, pa.RecordBatch.from_pylist([row], schema=RESULT_ROWS))

    def tick(self, result: dict[str, Any]) -> tuple[str, int, float | None]:
        return result["insight"], (result["ts"] - self.first) // 1000, result["value"]


@pytest.fixture
def deployed(enabler: EnablerClient, agent: AgentClient) -> Deployed:
    return Deployed(enabler, agent)


def test_followers_receive_new_results_and_revisions(enabler_url: str, deployed: Deployed) -> None:
    with (
        reading(enabler_url, insights=deployed.id, **STATES) as one,
        reading(enabler_url, insights=f"{deployed.id}/b", **STATES) as other,
    ):
        assert one.next("hello")["resumed"] is False
        for reader in (one, other):
            reader.next("state")
        deployed.write("a", 200, 1.5)
        deployed.write("b", 200, 2.5)
        deployed.write("b", 200, 3.5, revision=1)
        deployed.write("b", 200, 2.5)
        deployed.write("b", 201, 4.5)
        ticks = [("a", 200, 1.5), ("b", 200, 2.5), ("b", 200, 3.5), ("b", 201, 4.5)]
        assert [deployed.tick(each) for each in one.results(4)] == ticks
        received = other.results(3)
        assert [deployed.tick(each) for each in received] == ticks[1:]
        assert received[0]["deployment_id"] == deployed.id
        assert [each["revision"] for each in received] == [0, 1, 0]


def test_client_that_resumes_misses_no_result(enabler_url: str, deployed: Deployed) -> None:
    with (
        reading(enabler_url, insights=deployed.id, **STATES) as steady,
        reading(enabler_url, insights=deployed.id, **STATES) as leaving,
    ):
        for reader in (steady, leaving):
            reader.next("state")
        deployed.write("b", 0, 1.0)
        for reader in (steady, leaving):
            assert deployed.tick(reader.results(1)[0]) == ("b", 0, 1.0)
        cursor = leaving.last_id
    deployed.write("b", 50, 50.0)
    with reading(enabler_url, insights=deployed.id, last_id=cursor) as back:
        assert back.next("hello")["resumed"] is True
        while deployed.tick(back.results(1)[-1]) != ("b", 50, 50.0):
            pass
        deployed.write("b", 51, 51.0)
        assert deployed.tick(back.results(1)[-1]) == ("b", 51, 51.0)


@pytest.mark.soak
def test_client_resumes_at_restarted_enabler(
    start_enabler: StartEnabler, agent: AgentClient
) -> None:
    with start_enabler() as url:
        enabler = EnablerClient(url)
        deployed = Deployed(enabler, agent)
        enabler.close()
        with reading(url, insights=deployed.id, **STATES) as reader:
            reader.next("state")
            deployed.write("b", 0, 0.0)
            reader.results(1)
            cursor = reader.last_id
    deployed.write("b", 1, 1.0)
    with start_enabler() as url, reading(url, insights=deployed.id, after=cursor) as reader:
        while deployed.tick(reader.results(1)[-1]) != ("b", 1, 1.0):
            pass


def test_client_yields_live_events_and_resumes_after_a_cursor(
    enabler: EnablerClient, deployed: Deployed
) -> None:
    events = enabler.events(["states"], [f"{deployed.id}/b"])
    assert next(events).name == "hello"
    state = next(each for each in events if each.name == "state")
    assert state.data["deployment_id"] == deployed.id
    deployed.write("b", 0, 1.0)
    first = next(each for each in events if each.name == "result")
    assert deployed.tick(first.data) == ("b", 0, 1.0)
    deployed.write("b", 1, 2.0)
    resumed = enabler.events(insights=[deployed.id], after=first.cursor)
    results = (each.data for each in resumed if each.name == "result")
    assert next(each for each in map(deployed.tick, results) if each[1] == 1) == ("b", 1, 2.0)
    with pytest.raises(InvalidRequestError, match="no topic"):
        next(enabler.events(["weather"]))  # type: ignore[list-item]


def test_client_that_missed_too_many_events_receives_a_gap(
    start_enabler: StartEnabler, agent: AgentClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(result_hub, "MAX_REPLAYED", 2)
    with start_enabler() as url:
        enabler = EnablerClient(url)
        deployed = Deployed(enabler, agent)
        for tick in range(3):
            deployed.write("b", tick, tick)
        cursor = deployed.first - 60_000
        with reading(url, insights=deployed.id, after=str(cursor), **STATES) as reader:
            assert reader.next("gap") == {"deployment_id": deployed.id, "since": cursor}
            reader.next("state")
            deployed.write("b", 9, 9.0)
            assert deployed.tick(reader.results(1)[0]) == ("b", 9, 9.0)
        enabler.close()


def test_unknown_insights_are_problems_and_others_are_followed(
    enabler_url: str, deployed: Deployed
) -> None:
    insights = f"d-none,{deployed.id}/none,{deployed.id}/b"
    with reading(enabler_url, insights=insights, **STATES) as reader:
        assert reader.next("problem")["deployment_id"] == "d-none"
        assert "has no insight none" in reader.next("problem")["message"]
        reader.next("state")
        deployed.write("b", 3, 3.0)
        assert deployed.tick(reader.results(1)[0]) == ("b", 3, 3.0)


def test_topics_begin_with_present_view_and_continue_with_changes(
    enabler_url: str, enabler: EnablerClient, deployed: Deployed
) -> None:
    with reading(enabler_url, topics="states,fog,decisions") as reader:
        state = reader.next("state")
        assert (state["deployment_id"], {each["name"] for each in state["insights"]}) == (
            deployed.id,
            {"a", "b"},
        )
        fog = reader.next("fog")
        assert [each["name"] for each in fog["site_states"]] == ["n1"]
        assert fog["site_states"][0]["reachable"] is True
        assert {each["group"] for each in fog["fragments"]} <= {"all.fair"}
        enabler.pause(deployed.id)
        seen = set()
        while seen != {"state", "decision"}:
            event = reader.next("state", "decision")
            if event.get("status") == "paused":
                seen.add("state")
            if event.get("kind") == "deployment_paused":
                seen.add("decision")
        enabler.delete(deployed.id)
        assert reader.next("deleted") == {"deployment_id": deployed.id}


def test_health_is_read_and_followed(
    enabler_url: str, enabler: EnablerClient, deployed: Deployed
) -> None:
    with reading(enabler_url, topics="health") as reader:
        report = reader.next("health")
        # No worker has announced itself, so no insight of the deployment can be placed.
        while not report["problems"]:
            report = reader.next("health")
        [problem] = report["problems"]
        assert (problem["kind"], problem["severity"]) == ("insight_unplaced", "error")
        assert problem["subject"].startswith(deployed.id)
        assert report["state"] == "failed"
        assert report["counts"]["sites"] == report["counts"]["sites_reachable"] == 1
        enabler.delete(deployed.id)
        while report["problems"]:
            report = reader.next("health")
        assert report["state"] == "ok"
    health = enabler.health()
    assert (health.state, health.problems) == ("ok", [])


def test_free_disk_of_a_site_is_in_the_view_of_the_fog(enabler: EnablerClient) -> None:
    def disk() -> tuple[float, float] | None:
        sites = enabler.fog().site_states
        free, size = sites[0].disk_free_mb, sites[0].disk_size_mb
        return None if free is None or size is None else (free, size)

    measured = eventually(disk, what="the status of the site is read")
    assert measured is not None
    assert 0 < measured[0] <= measured[1]


@pytest.mark.parametrize(
    ("params", "headers"),
    [
        ({"topics": "weather"}, {}),
        ({"insights": ",".join(f"d-{number}" for number in range(51))}, {}),
        ({}, {"Last-Event-ID": "all.fair=3"}),
        ({"after": "-1"}, {}),
    ],
)
def test_invalid_request_is_refused(
    lone_enabler: EnablerClient, params: dict[str, str], headers: dict[str, str]
) -> None:
    url = lone_enabler._transport.url
    answer = httpx.get(f"{url}/api/events", params=params, headers=headers)
    assert answer.status_code == 400
    assert answer.json()["error"]["code"] == "invalid_request"
