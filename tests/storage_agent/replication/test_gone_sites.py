"""Replicas of sites that are gone: deleted by request, and reported when a site returns."""

from contextlib import ExitStack
from typing import Any

from ignite_server.server import IgniteServer
from mistbow.client import AgentClient, Point
from mistbow.clock import system_clock
from mistbow.streams.schemas import EVENTS, METADATA, POINTS
from storage_agent.membership.fabric_membership import FabricMembership
from storage_agent.replication.follower.follower import Follower
from storage_agent.settings import AgentSettings
from storage_agent.streams.streams import Streams
from tests.storage_agent.conftest import ManualClock
from tests.storage_agent.replication.test_offload import (
    ALL,
    CPU,
    SOON,
    local_points,
    refused,
    total,
)
from tests.storage_agent.replication.test_replicas import ask, copied, points, replica
from tests.support.conditions import eventually
from tests.support.sites import AgentSite, site_of, wait_until_reached


def replicas(client: AgentClient) -> Any:
    return ask(client, "GET", "/replication")["replicas"]


def test_replica_of_a_gone_site_is_deleted_by_request(places: list[AgentSite]) -> None:
    a, b, _ = places
    with ExitStack() as stack, b.agent(**SOON) as at_b:
        at_a = stack.enter_context(a.agent(b, **SOON))
        wait_until_reached(at_a, "b")
        at_a.put([*points(0, 70), *points(0, 7, "mem")])
        copy_id = copied(at_a, "b", filter=CPU, move=True)
        eventually(lambda: local_points(at_a) == 0, what="all points have moved")
        path = f"/replication/replicas/a/{copy_id}"
        assert "a can be reached" in refused(at_b, "DELETE", path, params={"force": True})
        stack.close()
        eventually(lambda: not site_of(at_b, "a").reachable)
        assert "the only remaining rows of the site a" in refused(at_b, "DELETE", path)
        assert "the site b stores a replica of the site a" in refused(
            at_b, "DELETE", "/fabric/sites/a"
        )
        at_b.operations.delete_replica("a", copy_id, force=True)
        assert replicas(at_b) == []
        with a.agent(b, **SOON) as at_a:
            wait_until_reached(at_a, "b")
            # The offloaded points are lost and reported as missing; the rest is copied again.
            at_a.put([Point("cpu", "e0", system_clock(), 5.0)])
            eventually(lambda: replica(at_b)["rows"] == 1)
            answer = total(at_a)
            assert answer["value"] == 5.0
            assert (
                "deleted or lost, with the points that were offloaded to it"
                in answer["missing"][0]["reason"]
            )
        eventually(lambda: not site_of(at_b, "a").reachable)
        answer = ask(at_b, "POST", "/get", json={**ALL, "nodes": ["a"]})
        assert "no replica at a reachable site has cpu" in answer["missing"][0]["reason"]


async def test_incomplete_replica_is_deleted_if_nothing_needs_it(
    streams: Streams, ignite: IgniteServer, settings: AgentSettings, clock: ManualClock
) -> None:
    half, other = "replicas/a/raw/0123456789ab", "replicas/c/metadata"
    await streams.create(half, POINTS)
    await streams.create(other, EVENTS)
    membership = FabricMembership(settings, clock)
    await membership.open(streams, (), lambda _: False)
    follower = Follower(membership, settings.home, 0, clock)
    follower.open(streams)
    await follower.reconcile()
    assert [stream.name for stream in streams.all()] == [METADATA, other]
    await membership.close()
