"""Which streams an agent of another site may read."""

import json
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from fastapi.routing import APIRoute

from mistbow.auth.callers import on_behalf_of, service_caller
from mistbow.auth.credential import Credential
from mistbow.client.operation_model import Copy, SeriesFilter
from mistbow.clock import utc_now
from mistbow.errors import OutOfReachError
from mistbow.timestamps import Timestamps
from storage_agent.api.streams import check_peer, streams_routes

END = utc_now() + timedelta(days=1)
EDGE = service_caller(Credential("x", "agent", "b", "0" * 32, "0" * 64, END), "a")
TIMES = Timestamps("ms")
SOME = SeriesFilter(metric=("delay",))


def copy(target: str = "b", **more: Any) -> Copy:
    return Copy(
        **{"id": "1", "why": "a test", "since": 0, "cause": "request", **more}, target=target
    )


def agent_with(*copies: Copy) -> Any:
    found = SimpleNamespace(all=lambda: copies)
    return SimpleNamespace(replication=SimpleNamespace(copies=found))


@pytest.mark.parametrize("part", [copy(filter=SOME), copy(withheld=(SOME,))])
def test_copy_of_a_part_does_not_open_the_rows_of_the_stream(part: Copy) -> None:
    with on_behalf_of(EDGE):
        check_peer(agent_with(part), "raw")
        with pytest.raises(OutOfReachError):
            check_peer(agent_with(part), "raw", rows=True)


def test_copy_of_a_whole_stream_opens_this_stream() -> None:
    agent = agent_with(copy(), copy("c", stream="panes"))
    with on_behalf_of(EDGE):
        check_peer(agent, "raw", rows=True)
        check_peer(agent, "metadata", rows=True)
        check_peer(agent, "replicas/b/raw", rows=True)
        for name in ("panes", "replicas/c/raw"):
            with pytest.raises(OutOfReachError):
                check_peer(agent, name)


async def test_list_of_streams_has_those_that_an_agent_of_another_site_may_read() -> None:
    names = ("raw", "metadata", "panes", "replicas/b/raw", "replicas/b2/raw", "results/x")
    agent = agent_with(copy())
    streams = [SimpleNamespace(name=name, info=lambda name=name: {"name": name}) for name in names]
    agent.streams = SimpleNamespace(all=lambda: streams)
    agent.proxy = None
    (route,) = [
        each
        for each in streams_routes(agent, TIMES).routes
        if isinstance(each, APIRoute) and each.path == "/streams" and "GET" in each.methods
    ]

    async def listed() -> list[str]:
        found = json.loads((await route.endpoint()).body)
        return [each["name"] for each in found["streams"]]

    assert await listed() == list(names)
    with on_behalf_of(EDGE):
        assert await listed() == ["raw", "metadata", "replicas/b/raw"]
