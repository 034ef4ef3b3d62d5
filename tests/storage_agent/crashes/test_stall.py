"""Changes during a stall of Ignite: the agent answers 503, and later knows whether they are stored.

All requests are sent during one stall, to one agent, which is then restarted on the same store.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import httpx
import pyarrow as pa
import pytest

from ignite_server.server import IgniteServer
from mistbow.client import AgentClient
from storage_agent import main
from storage_agent.agent.agent import Agent
from storage_agent.settings import AgentSettings
from tests.support.agents import running_agent
from tests.support.conditions import eventually
from tests.support.ignite import empty, frozen

_SCHEMA = {"schema": {"type": "object"}}
_RECORD = {"val": {"a": 1}, "timestamp": 1}
_POINTS = {
    "monitoring": [{"metricID": "m", "entityID": "e", "val": 1, "timestamp": 1_700_000_000_000}]
}

Json = dict[str, Any]
View = Callable[[httpx.Client], object]


@dataclass(frozen=True)
class Change:
    """A request during the stall, and a view of what it changes."""

    method: str
    path: str
    body: Json | None
    view: View


@dataclass(frozen=True)
class Outcome:
    """The answer to a change, and what readers found before and after a restart of the agent.

    The points of ``/put`` are sent again before the restart, and ``found`` is what is found then.
    """

    answer: httpx.Response
    found: object
    found_after_restart: object


def records(path: str, key: str) -> View:
    bodies: list[Json] = [{"key": [key]}, {"key": [key], "from": 0}]
    return lambda agent: [agent.post(path, json=body).json() for body in bodies]


def values(agent: httpx.Client) -> list[Json]:
    [node] = agent.post("/get", json={"metricID": "m", "from": 0}).json()["monitoring"]
    return [value for series in node["data"] for value in series["values"]]


def info(stream: str, *fields: str) -> View:
    return lambda agent: [agent.get(f"/streams/{stream}/info").json()[field] for field in fields]


CHANGES = [
    Change(
        "POST",
        "/app/put",
        {"application": [{"key": "new", **_RECORD}]},
        records("/app/get", "new"),
    ),
    Change("DELETE", "/analytics", {"key": ["old"]}, records("/analytics/get", "old")),
    Change("DELETE", "/app/schemas/old", None, lambda agent: agent.get("/app/schemas").json()),
    Change(
        "PATCH",
        "/streams/patched",
        {"attributes": {"a": "1"}, "frontier": 9},
        info("patched", "attributes", "frontier"),
    ),
    Change("POST", "/streams/claimed/claim", None, info("claimed", "epoch", "head")),
    Change("POST", "/put", _POINTS, values),
]


def prepare(url: str, agent: httpx.Client) -> None:
    """Store what the changes delete, and claim the streams of records, as their first put does."""
    client = AgentClient(url)
    for stream in ("patched", "claimed"):
        client.create_stream(stream, pa.schema([pa.field("ts", pa.int64(), nullable=False)]))
    client.close()
    for path, body in (
        ("/app/put", {"application": [{"key": "first", **_RECORD}]}),
        ("/analytics/put", {"analytics": [{"key": "old", **_RECORD}]}),
    ):
        agent.post(path, json=body).raise_for_status()
    agent.put("/app/schemas/old", json=_SCHEMA).raise_for_status()


@pytest.fixture(scope="module")
def outcomes(
    ignite_server: IgniteServer, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Outcome]:
    empty(ignite_server)
    settings = AgentSettings(
        home=tmp_path_factory.mktemp("agent"),
        node="n1",
        region="r1",
        ignite_port=ignite_server.port,
        collect_routes=False,
        when_away="refuse",
    )
    agents: list[Agent] = []

    def create(*given: Any) -> Agent:
        agents.append(Agent(*given))
        return agents[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(main, "Agent", create)
        with running_agent(settings) as url, httpx.Client(base_url=url, timeout=60) as agent:
            prepare(url, agent)
            with frozen(ignite_server), ThreadPoolExecutor(len(CHANGES)) as pool:

                def send(change: Change) -> httpx.Response:
                    return agent.request(change.method, change.path, json=change.body)

                answers = list(pool.map(send, CHANGES))
            streams = agents[0].streams
            eventually(
                lambda: not any(stream.log.is_uncertain for stream in streams.all()),
                what="all outcomes are known",
            )
            agent.post("/put", json=_POINTS).raise_for_status()
            found = [change.view(agent) for change in CHANGES]
    with running_agent(settings) as url, httpx.Client(base_url=url, timeout=60) as agent:
        again = [change.view(agent) for change in CHANGES]
    return {
        change.path: Outcome(*outcome)
        for change, outcome in zip(CHANGES, zip(answers, found, again, strict=True), strict=True)
    }


@pytest.mark.parametrize("path", [change.path for change in CHANGES])
def test_readers_find_the_same_before_and_after_a_restart(
    outcomes: dict[str, Outcome], path: str
) -> None:
    outcome = outcomes[path]
    assert outcome.answer.status_code == 503
    assert "the outcome of the request is unknown" in outcome.answer.text
    assert outcome.found == outcome.found_after_restart


def test_points_that_are_sent_again_after_an_unknown_outcome_are_stored_once(
    outcomes: dict[str, Outcome],
) -> None:
    outcome = outcomes["/put"]
    assert "Repeat the request with the same body" in outcome.answer.text
    assert outcome.found == [{"timestamp": 1_700_000_000_000, "val": 1.0}]
