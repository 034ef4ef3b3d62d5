"""The storage agent's client, as far as it is not tested against the agent itself."""

import json

import pytest

from mistbow.client import AgentClient, AsyncAgentClient, Point, agent_calls
from mistbow.client.agent_model import Container, Pod
from mistbow.errors import UnavailableError
from mistbow.ports import free_ports


def test_a_point_has_the_specifications_names() -> None:
    point = Point(
        "m",
        "e",
        1_795_262_400_000,
        2.5,
        entity_type="host",
        higher_is_better=False,
        pod=Pod(name="p"),
        container=Container(id="c"),
        labels={"rack": 7},
    )
    call = agent_calls.put([point], "key")
    assert json.loads(call.content or b"") == {
        "monitoring": [
            {
                "metricID": "m",
                "entityID": "e",
                "timestamp": 1_795_262_400_000,
                "val": 2.5,
                "entityType": "host",
                "higherIsBetter": False,
                "pod": {"name": "p"},
                "container": {"id": "c"},
                "labels": {"rack": 7},
            }
        ]
    }
    assert call.headers["Idempotency-Key"] == "key"


def test_each_put_without_a_key_gets_its_own() -> None:
    keys = {agent_calls.put([], None).headers["Idempotency-Key"] for _ in range(2)}
    assert len(keys) == 2


def test_a_selection_becomes_parameters() -> None:
    call = agent_calls.read("a/b", 3, None, {"match": {"x": ["1", "2"], "y": "z:z"}, "late": True})
    assert call.path == "/streams/a/b"
    assert call.params == {"from": 3, "match": ["x:1", "x:2", "y:z:z"], "late": "true"}


async def test_an_agent_that_is_away() -> None:
    [port] = free_ports(1)
    client = AgentClient(f"http://127.0.0.1:{port}")
    for attempt in (client.streams, lambda: next(client.follow("raw"))):
        with pytest.raises(UnavailableError, match="does not answer"):
            attempt()
    client.close()
    other = AsyncAgentClient(f"http://127.0.0.1:{port}")
    with pytest.raises(UnavailableError):
        await anext(other.follow("raw"))
    await other.close()
