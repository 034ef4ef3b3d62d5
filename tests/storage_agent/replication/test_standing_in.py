"""Which replicas answer for a site that does not."""

import pyarrow as pa

from mistbow.settings import AgentSettings
from mistbow.streams.events import event_rows
from mistbow.streams.schemas import EVENTS, POINTS
from mistbow.streams.wire import Chunk, Position
from storage_agent.fabric.facts import SITE, SiteFacts, as_event
from storage_agent.fabric.member import Member
from storage_agent.monitoring.bodies import GetBody
from storage_agent.monitoring.catalogue import Catalogue, series_key
from storage_agent.replication.moved import MovedReplicas
from storage_agent.replication.pulling import Puller
from storage_agent.replication.replica import Replica
from storage_agent.replication.standing_in import StandIns
from storage_agent.replication.told import KEPT_KEY, Copy
from storage_agent.streams.streams import Streams
from tests.storage_agent.conftest import HeldClock


async def test_a_replica_here_answers_before_it_was_told_of(
    streams: Streams, settings: AgentSettings, clock: HeldClock
) -> None:
    told = {
        SITE: as_event(SiteFacts(node="node-a", url="http://a:1")),
        series_key(("cpu", "x")): as_event({"metricID": "cpu", "entityID": "x"}),
    }
    await streams.create("replicas/a/metadata", EVENTS)
    stream = await streams.get("replicas/a/metadata")
    await stream.writer.append(event_rows(clock(), told))
    await streams.create("replicas/a/raw", POINTS)
    copy = Copy(id="4f", target=settings.site, why="asked for", since=0)
    replica = Replica("a", copy, await streams.get("replicas/a/raw"), clock)
    await replica.take_up()
    await replica.begin("store", 0, 1)
    point = [["cpu"], ["x"], ['{"entityID":"x"}'], [clock() - 1000], [7.0]]
    columns = [pa.array(values, field.type) for values, field in zip(point, POINTS, strict=True)]
    rows = pa.RecordBatch.from_arrays(columns, schema=POINTS)
    await replica.add(Chunk(rows, Position(1, clock())))
    member = Member(settings, clock)
    await member.open(streams, Catalogue())
    puller = Puller(member, settings.home, 0, clock)
    puller.open(streams)
    stand_ins = StandIns(member, puller, MovedReplicas(puller, durable=True))
    [site] = [each for each in member.fabric().sites if each.name == "a"]
    stood = await stand_ins.instead(site, GetBody(start=0), "a is silent")
    assert stood.missing == ()
    assert b'"val":7.0' in stood.parts[0]
    assert KEPT_KEY not in member.told_by(settings.site)
    await member.close()
