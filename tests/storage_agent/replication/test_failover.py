"""The replicas that answer in place of an unreachable site."""

import pyarrow as pa

from mistbow.client.operation_model import Copy
from mistbow.streams.events import event_rows
from mistbow.streams.schemas import EVENTS, POINTS
from mistbow.streams.wire import Chunk, Position
from storage_agent.http.points import GetBody
from storage_agent.membership.fabric_membership import FabricMembership
from storage_agent.membership.facts import REPLICAS, SITE, SiteFact, encode_fact
from storage_agent.replication.failover.failover import FailoverReader
from storage_agent.replication.follower.follower import Follower
from storage_agent.replication.follower.replica import Replica
from storage_agent.replication.follower.replica_server import ReplicaServer
from storage_agent.series import series_key
from storage_agent.settings import AgentSettings
from storage_agent.streams.streams import Streams
from tests.storage_agent.conftest import ManualClock


async def test_failover_reads_a_replica_before_its_fact_is_published(
    streams: Streams, settings: AgentSettings, clock: ManualClock
) -> None:
    site_facts = {
        SITE: encode_fact(SiteFact(node="node-a", url="http://a:1")),
        series_key(("cpu", "x")): encode_fact({"metricID": "cpu", "entityID": "x"}),
    }
    await streams.create("replicas/a/metadata", EVENTS)
    stream = await streams.get("replicas/a/metadata")
    await stream.writer.append(event_rows(clock(), site_facts))
    await streams.create("replicas/a/raw", POINTS)
    copy = Copy(id="4f", target=settings.site, why="asked for", since=0)
    replica = Replica("a", copy, await streams.get("replicas/a/raw"), clock)
    await replica.register()
    await replica.begin("store", 0, 1)
    point = [["cpu"], ["x"], ['{"entityID":"x"}'], [clock() - 1000], [7.0]]
    columns = [pa.array(values, field.type) for values, field in zip(point, POINTS, strict=True)]
    rows = pa.RecordBatch.from_arrays(columns, schema=POINTS)
    await replica.add(Chunk(rows, Position(1, clock())))
    membership = FabricMembership(settings, clock)
    await membership.open(streams, (), lambda _: False)
    follower = Follower(membership, settings.home, 0, clock)
    follower.open(streams)
    failover_reader = FailoverReader(membership, follower, ReplicaServer(follower, durable=True))
    [site] = [each for each in membership.fabric().sites if each.name == "a"]
    stood = await failover_reader.answer_instead(site, GetBody(start=0), "a is silent")
    assert stood.missing == ()
    assert b'"val":7.0' in stood.items[0]
    assert REPLICAS not in membership.facts_of(settings.site)
    await membership.close()
