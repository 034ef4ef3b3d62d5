"""Statements of a stolen site about replicas that were never requested."""

from datetime import timedelta

import httpx
import pytest

from mistbow.auth.fog_keys import FogKeys
from mistbow.auth.identity import read_identity_file
from mistbow.client.operation_model import Copy, ReplicaFact, SeriesFilter
from mistbow.clock import utc_now
from mistbow.streams.events import event_rows
from mistbow.streams.schemas import EVENTS
from storage_agent.http.points import GetBody
from storage_agent.membership.fabric_membership import FabricMembership
from storage_agent.membership.facts import (
    COPIES,
    REPLICAS,
    SITE,
    SiteFact,
    credential_key,
    encode_fact,
)
from storage_agent.membership.heartbeat import Heartbeat
from storage_agent.replication.replication import Replication
from storage_agent.series import series_key
from storage_agent.settings import AgentSettings
from storage_agent.streams.streams import Streams
from tests.storage_agent.conftest import ManualClock

EDGE_URL = "http://127.0.0.1:9"


async def opened(
    streams: Streams,
    settings: AgentSettings,
    fog: FogKeys,
    clock: ManualClock,
    *,
    reach: tuple[str, ...],
    requested: bool,
    replica: ReplicaFact,
) -> FabricMembership:
    """Return the membership of a core whose edge states that it has a replica.

    ``reach``: of the edge. ``requested``: whether the site ``a`` has requested the replica.
    """
    end = utc_now() + timedelta(days=1)
    own = fog.issue("core", "agent", settings.site, end, ("*",))
    edge = read_identity_file(fog.issue("edge", "agent", "edge", end, reach)).credential
    copy = Copy(id=replica.id, target="edge", why="", since=0)
    for site, stated in {
        "a": {
            SITE: encode_fact(SiteFact(node="node-a", url="http://a:1")),
            series_key(("cpu", "x")): encode_fact({"metricID": "cpu", "entityID": "x"}),
            **({COPIES: encode_fact((copy,))} if requested else {}),
        },
        "edge": {
            SITE: encode_fact(SiteFact(node="node-edge", url=EDGE_URL)),
            credential_key(SITE): encode_fact(edge),
            REPLICAS: encode_fact((replica,)),
        },
    }.items():
        await streams.create(f"replicas/{site}/metadata", EVENTS)
        stream = await streams.get(f"replicas/{site}/metadata")
        await stream.writer.append(event_rows(clock(), stated))
    given = settings.model_copy(update={"token": None, "identity_file": own})
    membership = FabricMembership(given, clock)
    await membership.open(streams, (), lambda _: False)
    heartbeat = Heartbeat(site="edge", node="node-edge", url=EDGE_URL, instance="e")
    membership.peers.record_answer(EDGE_URL, heartbeat, 1.0)
    await membership.flush()  # its tasks run now
    return membership


@pytest.mark.parametrize(
    ("reach", "requested", "is_read"),
    [((), False, False), ((), True, True), (("a",), False, True), (("*",), False, True)],
)
async def test_replica_that_nobody_requested_does_not_answer_for_another_site(
    streams: Streams,
    settings: AgentSettings,
    fog_keys: FogKeys,
    clock: ManualClock,
    reach: tuple[str, ...],
    requested: bool,
    is_read: bool,
) -> None:
    replica = ReplicaFact(source="a", id="4f", complete=True, deleted=0)
    membership = await opened(
        streams, settings, fog_keys, clock, reach=reach, requested=requested, replica=replica
    )
    asked = []

    async def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request.url.path)
        return httpx.Response(503)

    client = membership.network.client(EDGE_URL)
    client._transport, client._auth = httpx.MockTransport(answer), None
    reader = Replication(settings, membership, clock).failover_reader
    [site] = [each for each in membership.fabric().sites if each.name == "a"]
    await reader.answer_instead(site, GetBody(start=0), "a is silent")
    assert asked == ["/replication/get"] * is_read
    await membership.close()


@pytest.mark.parametrize("is_known", [False, True])
async def test_stated_reads_count_for_requested_copies_only(
    streams: Streams,
    settings: AgentSettings,
    fog_keys: FogKeys,
    clock: ManualClock,
    is_known: bool,
) -> None:
    """Otherwise the policy would copy any series that the stolen edge claims to read."""
    await streams.recover({})
    cpu = SeriesFilter(metric=("cpu",))
    own = Copy(id="4f", target="edge", filter=cpu, why="", since=0, manual=True)
    replica = ReplicaFact(source=settings.site, id="4f", complete=True, reads=2**20)
    membership = await opened(
        streams, settings, fog_keys, clock, reach=(), requested=False, replica=replica
    )
    if is_known:
        membership.publish(COPIES, (own,))
    replication = Replication(settings, membership, clock)
    if is_known:
        replication.copies._copies = (own,)
    reads = replication.policy_driver.view().reads
    assert [(each.by, each.filter) for each in reads] == [("edge", cpu)] * is_known
    await membership.close()
