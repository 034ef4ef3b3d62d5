"""Replicas of sites that are gone: deleted by request, and what is told when a site is back."""

from contextlib import ExitStack
from typing import Any

from mistbow.client.agent import AgentClient, Point
from mistbow.clock import system_clock
from mistbow.ignite.server import IgniteServer
from mistbow.settings import AgentSettings
from mistbow.streams.schemas import EVENTS, METADATA, POINTS
from storage_agent.fabric.member import Member
from storage_agent.monitoring.catalogue import Catalogue
from storage_agent.replication.pulling import Puller
from storage_agent.streams.streams import Streams
from tests.storage_agent.conftest import HeldClock
from tests.storage_agent.replication.test_moving import ALL, CPU, SOON, here, refused, total
from tests.storage_agent.replication.test_replicas import ask, copied, points, replica
from tests.support.sites import Place, knows, site_of
from tests.support.waiting import eventually


def replicas(client: AgentClient) -> Any:
    return ask(client, "GET", "/replication")["replicas"]


def test_a_replica_of_a_site_that_is_gone_is_deleted_by_request(places: list[Place]) -> None:
    a, b, _ = places
    with ExitStack() as stack, b.agent(**SOON) as at_b:
        at_a = stack.enter_context(a.agent(b, **SOON))
        knows(at_a, "b")
        at_a.put([*points(0, 70), *points(0, 7, "mem")])
        copy_id = copied(at_a, "b", filter=CPU, move=True)
        eventually(lambda: here(at_a) == 0, what="all has moved")
        path = f"/replication/replicas/a/{copy_id}"
        assert "a can be reached" in refused(at_b, "DELETE", path, params={"force": True})
        stack.close()
        eventually(lambda: not site_of(at_b, "a").reachable)
        assert "70 rows of a are in this replica" in refused(at_b, "DELETE", path)
        assert "b holds a replica of a" in refused(at_b, "DELETE", "/fabric/sites/a")
        at_b.operations.delete_replica("a", copy_id, force=True)
        assert replicas(at_b) == []
        with a.agent(b, **SOON) as at_a:
            knows(at_a, "b")
            # What moved is lost, and said to be; what is left is copied anew, and is not all.
            at_a.put([Point("cpu", "e0", system_clock(), 5.0)])
            eventually(lambda: replica(at_b)["rows"] == 1)
            answer = total(at_a)
            assert answer["value"] == 5.0
            assert "deleted or lost, and what had moved with it" in answer["missing"][0]["reason"]
        eventually(lambda: not site_of(at_b, "a").reachable)
        answer = ask(at_b, "POST", "/get", json={**ALL, "nodes": ["a"]})
        assert "no replica that can be reached has cpu" in answer["missing"][0]["reason"]


async def test_what_was_to_be_a_replica_goes_unless_it_is_wanted(
    streams: Streams, ignite: IgniteServer, settings: AgentSettings, clock: HeldClock
) -> None:
    half, other = "replicas/a/raw/0123456789ab", "replicas/c/metadata"
    await streams.create(half, POINTS)
    await streams.create(other, EVENTS)
    member = Member(settings, clock)
    await member.open(streams, Catalogue())
    puller = Puller(member, settings.home, 0, clock)
    puller.open(streams)
    await puller.follow_wishes()
    assert [stream.name for stream in streams.all()] == [METADATA, other]
    await member.close()
