"""The clients of a storage agent, without an agent."""

import json

import pytest

from ignite_server.ports import free_ports
from mistbow.client import AgentClient, AsyncAgentClient, Point, point_calls, stream_calls
from mistbow.client.agent_model import Container, Pod
from mistbow.errors import UnavailableError


def test_put_encodes_points_by_the_names_of_the_specification() -> None:
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
    call = point_calls.put([point], "key")
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


def test_put_without_a_key_makes_one_for_each_call() -> None:
    keys = {point_calls.put([]).headers["Idempotency-Key"] for _ in range(2)}
    assert len(keys) == 2


def test_read_sends_its_selection_as_parameters() -> None:
    call = stream_calls.read("a/b", 3, match={"x": ["1", "2"], "y": "z:z"}, late=True)
    assert call.path == "/streams/a/b"
    assert call.params == {"from": 3, "match": ["x:1", "x:2", "y:z:z"], "late": "true"}


async def test_clients_of_an_unreachable_agent_raise_unavailable() -> None:
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
