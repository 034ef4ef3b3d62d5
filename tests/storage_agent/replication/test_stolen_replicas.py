"""Statements of a stolen site about replicas that were never requested, or of false positions."""

import asyncio
import struct
from collections.abc import Mapping
from datetime import timedelta

import httpx
import msgspec
import pyarrow as pa
import pytest
from structlog.testing import capture_logs

from mistbow.auth.fog_keys import FogKeys
from mistbow.auth.identity import identity_file, read_identity_file
from mistbow.client.operation_model import Copy, ReplicaFact, SeriesFilter
from mistbow.clock import utc_now
from mistbow.runtime.tasks import cancel_and_wait
from mistbow.streams.events import event_rows
from mistbow.streams.models import StreamInfo
from mistbow.streams.schemas import EVENTS
from mistbow.streams.wire import encode_rows
from storage_agent.cluster.losses import Loss, LossRegister
from storage_agent.cluster.replica_heads import ReplicaHeads, own_store
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
from storage_agent.replication.facts import replica_facts
from storage_agent.replication.follower.follower import Follower
from storage_agent.replication.replication import Replication
from storage_agent.series import series_key
from storage_agent.settings import AgentSettings
from storage_agent.streams.streams import Streams
from tests.storage_agent.conftest import ManualClock
from tests.support.trickle import Trickle

EDGE_URL = "http://127.0.0.1:9"
POSITION = 2**62


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
    reach_edge(membership)
    await membership.flush()  # its tasks run now
    return membership


def reach_edge(membership: FabricMembership) -> None:
    """Record that the edge has answered a heartbeat."""
    heartbeat = Heartbeat(site="edge", node="node-edge", url=EDGE_URL, instance="e")
    membership.peers.record_answer(EDGE_URL, heartbeat, 1.0)


async def claim_positions(membership: FabricMembership, streams: Streams) -> list[str]:
    """Let the edge claim to have replicas of more rows than this site's streams have.

    Returns the list to which the paths of the requests to the edge are added.
    """
    await streams.create("deployments", EVENTS)
    metadata = await streams.get("metadata")
    await metadata.writer.advance(metadata.log.epoch, attributes={"store": "s"})
    attributes = {"store": own_store(streams), "position": POSITION}
    claimed = StreamInfo(
        name=f"replicas/{membership.site}/deployments",
        fields=[],
        first=0,
        head=0,
        frontier=0,
        epoch=0,
        attributes=attributes,
        late=0,
        lateness_ms=None,
    )
    asked = []

    async def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request.url.path)
        body = msgspec.json.encode({"streams": [claimed]})
        return httpx.Response(200, stream=httpx.ByteStream(body))

    client = membership.network.client(EDGE_URL)
    client._transport, client._auth = httpx.MockTransport(answer), None
    return asked


@pytest.mark.parametrize(
    ("reach", "is_refused"), [((), False), (("a",), False), (("core",), True), (("*",), True)]
)
async def test_only_a_site_that_reaches_this_site_shows_its_losses(
    streams: Streams,
    settings: AgentSettings,
    fog_keys: FogKeys,
    clock: ManualClock,
    reach: tuple[str, ...],
    is_refused: bool,
) -> None:
    """Otherwise a stolen edge would refuse any stream, and block the agent's next start."""
    settings = settings.model_copy(update={"site": "core"})
    replica = ReplicaFact(source="core", id="4f", complete=True)
    membership = await opened(
        streams, settings, fog_keys, clock, reach=reach, requested=False, replica=replica
    )
    asked = await claim_positions(membership, streams)
    losses = LossRegister()
    heads = ReplicaHeads(membership, losses)
    for _ in range(3):
        await heads.compare_new(streams)
    assert asked == ["/streams"]
    expected = [Loss("deployments", "deployments", 0, POSITION, "edge")] * is_refused
    assert losses.all() == expected
    losses.clear()
    await heads.compare_all(streams)
    assert losses.all() == expected
    await membership.close()


@pytest.mark.parametrize(("reach", "is_refused"), [((), False), (("*",), True)])
async def test_proven_reach_decides_before_facts_are_read(
    streams: Streams,
    settings: AgentSettings,
    fog_keys: FogKeys,
    clock: ManualClock,
    reach: tuple[str, ...],
    is_refused: bool,
) -> None:
    end = utc_now() + timedelta(days=1)
    own = fog_keys.issue("core", "agent", "core", end, ("*",))
    edge = read_identity_file(fog_keys.issue("edge", "agent", "edge", end, reach))
    given = settings.model_copy(update={"token": None, "identity_file": own, "site": "core"})
    membership = FabricMembership(given, clock)
    reach_edge(membership)
    await streams.create("metadata", EVENTS)
    await claim_positions(membership, streams)
    losses = LossRegister()
    heads = ReplicaHeads(membership, losses)
    await heads.compare_all(streams)
    assert losses.all() == []
    proven = identity_file(own).current().read(edge.credential)
    membership.network._credentials[EDGE_URL].peer = proven
    membership.network.check_site(EDGE_URL, "edge")
    await heads.compare_all(streams)
    assert [loss.by for loss in losses.all()] == ["edge"] * is_refused
    await membership.close()


async def test_every_site_shows_losses_without_identities(
    streams: Streams, settings: AgentSettings, clock: ManualClock
) -> None:
    membership = FabricMembership(settings, clock)
    reach_edge(membership)
    await streams.create("metadata", EVENTS)
    await claim_positions(membership, streams)
    losses = LossRegister()
    await ReplicaHeads(membership, losses).compare_all(streams)
    assert [loss.by for loss in losses.all()] == ["edge"]
    await membership.close()


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


WEST_URL = "http://127.0.0.1:10"
INVALID_SCHEMA = struct.pack("<Ii", 0xFFFFFFFF, 16) + b"\x01" * 16
WEST_ROWS = httpx.ByteStream(encode_rows(pa.table({"n": [1]})))
COPIES_OF_EDGE = 30


async def follower_of_sites(
    streams: Streams,
    settings: AgentSettings,
    clock: ManualClock,
    answers: Mapping[str, httpx.AsyncByteStream],
) -> tuple[Follower, FabricMembership]:
    """Return the follower of a site to which the stream ``x`` of two other sites is copied.

    The edge has many such copies.

    ``answers``: site -> its answer to a read of ``x``; the sites answer nothing else.
    """
    urls = {"edge": EDGE_URL, "west": WEST_URL}
    for site, url in urls.items():
        copies = tuple(
            Copy(id=f"4f{number}", target=settings.site, stream="x", why="", since=0)
            for number in range(COPIES_OF_EDGE if site == "edge" else 1)
        )
        facts = {
            SITE: encode_fact(SiteFact(node=f"node-{site}", url=url)),
            COPIES: encode_fact(copies),
        }
        await streams.create(f"replicas/{site}/metadata", EVENTS)
        stream = await streams.get(f"replicas/{site}/metadata")
        await stream.writer.append(event_rows(clock(), facts))
    membership = FabricMembership(settings, clock)
    await membership.open(streams, (), lambda _: False)
    for site, url in urls.items():
        heartbeat = Heartbeat(site=site, node=f"node-{site}", url=url, instance=site)
        membership.peers.record_answer(url, heartbeat, 1.0)
        client = membership.network.client(url)

        async def answer(request: httpx.Request, site: str = site) -> httpx.Response:
            if request.url.path != "/streams/x":
                return httpx.Response(503, stream=httpx.ByteStream(b""))
            return httpx.Response(200, stream=answers[site])

        client._transport, client._auth = httpx.MockTransport(answer), None
    await membership.flush()
    follower = Replication(settings, membership, clock).follower
    follower.open(streams)
    return follower, membership


@pytest.mark.parametrize("is_expected", [True, False])
async def test_follower_makes_the_replicas_of_others_if_a_site_answers_an_invalid_schema(
    streams: Streams,
    settings: AgentSettings,
    clock: ManualClock,
    monkeypatch: pytest.MonkeyPatch,
    is_expected: bool,
) -> None:
    await streams.recover({})
    answers = {"edge": httpx.ByteStream(INVALID_SCHEMA), "west": WEST_ROWS}
    follower, membership = await follower_of_sites(streams, settings, clock, answers)
    if not is_expected:

        def read(data: bytes) -> pa.Schema:
            if data == INVALID_SCHEMA:
                raise RuntimeError("a defect")
            return pa.schema({"n": pa.int64()})

        monkeypatch.setattr("storage_agent.replication.follower.follower.read_schema", read)
    with capture_logs() as events:
        await follower.reconcile()
        await follower.reconcile()
    logged = [each["event"] for each in events if each.get("source") == "edge"]
    assert logged == (
        ["replica_unavailable"] * 2 * COPIES_OF_EDGE
        if is_expected
        else ["replica_failed"] * COPIES_OF_EDGE
    )
    assert [(each.source, each.copy.stream) for each in follower.replicas()] == [("west", "x")]
    assert list(follower._following) == [("west", "4f0")]
    await membership.flush()
    [published] = replica_facts(membership.facts_of(settings.site))
    assert published.source == "west"
    await cancel_and_wait(follower._following.values())
    await membership.close()


async def test_follower_makes_the_replicas_of_others_while_a_site_trickles_its_answers(
    streams: Streams, settings: AgentSettings, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("CONNECT_S", "ANSWER_S"):
        monkeypatch.setattr(f"storage_agent.membership.answer_time.{name}", 0.1)
    monkeypatch.setattr("storage_agent.replication.follower.follower._MAKE_S", 0.5)
    await streams.recover({})
    answers = {"edge": Trickle(), "west": WEST_ROWS}
    follower, membership = await follower_of_sites(streams, settings, clock, answers)
    async with asyncio.timeout(5):
        await follower.reconcile()
    assert [each.source for each in follower.replicas()] == ["west"]
    await cancel_and_wait(follower._following.values())
    await membership.close()
