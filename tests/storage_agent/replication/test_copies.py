"""The copies that a site retains while the replicas of their replacements are incomplete."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager

import msgspec
import pyarrow as pa
import pytest

from mistbow.client.operation_model import Copy, ReplicaFact, SeriesFilter
from mistbow.errors import ConflictError
from mistbow.streams.events import event_rows
from mistbow.streams.schemas import EVENTS, POINTS, RAW
from mistbow.streams.wire import Position
from storage_agent.membership.fabric_membership import FabricMembership
from storage_agent.membership.facts import REPLICAS, encode_fact
from storage_agent.membership.heartbeat import Heartbeat
from storage_agent.replication.facts import content_id, replaces, replica_stream_name
from storage_agent.replication.offload.offloaded_points import OffloadedPoints
from storage_agent.replication.offload.offloads import Offload
from storage_agent.replication.restrictions import SiteRestrictions
from storage_agent.replication.source.copies import Copies
from storage_agent.replication.source.copy_reader import CopyReader
from storage_agent.replication.source.requests import CopyRequest
from storage_agent.settings import AgentSettings
from storage_agent.streams import small_parts
from storage_agent.streams.consumer import SegmentConsumer
from storage_agent.streams.index import IndexEntry
from storage_agent.streams.manifest import Tombstone
from storage_agent.streams.pace import Pace
from storage_agent.streams.segments import Segment
from storage_agent.streams.small_parts import OpenSubscriptions
from storage_agent.streams.streams import Streams
from storage_agent.timeseries.catalogue import Catalogue
from tests.storage_agent.conftest import ManualClock
from tests.storage_agent.gate import close_gate
from tests.storage_agent.streams.opener import points

AT_B, AT_C = CopyRequest("b", why="so"), CopyRequest("c", why="so")
CPU, MEM = SeriesFilter(metric=("cpu",)), SeriesFilter(metric=("mem",))


def copy(target: str = "b", **more: object) -> Copy:
    made = Copy(**{"id": "", "target": target, "why": "so", "since": 0, **more})
    return msgspec.structs.replace(made, id=content_id(made))


@asynccontextmanager
async def open_copies(
    streams: Streams,
    settings: AgentSettings,
    clock: ManualClock,
    complete: str,
    noted: Offload | None = None,
) -> AsyncIterator[Copies]:
    """Yield the copies of the site a, which reaches the sites b and c.

    ``complete``: the sites with complete replicas; ``noted``: an offload that a has recorded.
    """
    for site in "bc":
        name = f"replicas/{site}/metadata"
        await streams.create(name, EVENTS)
        replicas = (ReplicaFact(source="a", id=copy(site).id, complete=site in complete),)
        rows = event_rows(clock(), {REPLICAS: encode_fact(replicas)})
        await (await streams.get(name)).writer.append(rows)
    membership = FabricMembership(settings.model_copy(update={"site": "a"}), clock)
    await membership.open(streams, (), lambda _: False)
    for site in "bc":
        url = f"http://{site}:1"
        membership.peers.record_answer(
            url, Heartbeat(site=site, node=site, url=url, instance="1"), 1.0
        )
    moved = OffloadedPoints(membership)
    if noted is not None:
        await streams.recover({})
        moved.open(streams)
        await moved.record(noted.attributes())
    copies = Copies(membership, SiteRestrictions("", membership), moved, clock)
    copies.open(streams)
    yield copies
    await membership.flush()
    await membership.close()


def targets(copies: Copies) -> list[str]:
    return sorted(each.target for each in copies.all())


async def test_complete_copy_stays_until_its_replacement_is_complete(
    streams: Streams, settings: AgentSettings, clock: ManualClock
) -> None:
    async with open_copies(streams, settings, clock, "b") as copies:
        copies.apply_decisions([AT_B])
        copies.fragile = True
        copies.apply_decisions([])
        assert targets(copies) == ["b"], "there is nothing else"
        copies.fragile = False
        copies.apply_decisions([AT_C])
        assert targets(copies) == ["b", "c"], "what takes its place is not complete"
        copies.fragile = True
        with pytest.raises(ConflictError, match="no other copy of this data is complete"):
            await copies.withdraw(copy().id, "b")
    async with open_copies(streams, settings, clock, "bc") as copies:
        assert targets(copies) == ["b", "c"]
        copies.apply_decisions([AT_C])
        assert targets(copies) == ["c"]
        copies.fragile = False
        copies.apply_decisions([])
        assert targets(copies) == [], "nobody needs it, and the site is not fragile"


async def test_tombstone_is_owed_to_the_replica_with_offloaded_points(
    streams: Streams, settings: AgentSettings, clock: ManualClock
) -> None:
    noted = Offload(copy().id, "b", "of-b", 1, 1)
    deletion = Tombstone(id=1, before=1, created=clock())
    async with open_copies(streams, settings, clock, "bc", noted) as copies:
        copies.apply_decisions([AT_C])
        assert copies.unacknowledged(RAW)(deletion)
        assert not copies.owed_to_offloads(RAW)(deletion)
        copies.apply_decisions([AT_B])
        copies.refresh()
        assert copies.owed_to_offloads(RAW)(deletion)


async def test_feed_has_smaller_chunks_while_many_are_open(
    streams: Streams, settings: AgentSettings, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(small_parts, "_MIN_ROWS", 3)
    monkeypatch.setattr(small_parts, "_ROWS", 3)
    subscriptions = OpenSubscriptions()

    async def sizes(reader: CopyReader) -> list[int]:
        """Return the numbers of rows of the chunks of the first 10 rows."""
        _, chunks = await reader.follow("b", copy().id, 0, 0, subscriptions)
        found: list[int] = []
        async for chunk in chunks:
            found.append(chunk.rows.num_rows)
            if sum(found) == 10:
                break
        return found

    async with open_copies(streams, settings, clock, "b") as copies:
        await streams.create(RAW, POINTS)
        for time in range(5):
            await (await streams.get(RAW)).writer.append(points(2 * time, 2 * time + 1))
        copies.apply_decisions([AT_B])
        reader = CopyReader(copies)
        reader.open(streams, Catalogue())
        assert await sizes(reader) == [10]
        with ExitStack() as stack:
            for _ in range(17):
                stack.enter_context(subscriptions.counted())
            assert await sizes(reader) == [2, 2, 2, 2, 2]


def without_attributes(*times: int) -> pa.RecordBatch:
    columns = points(*times).columns
    columns[2] = pa.array(["{}"] * len(times)).dictionary_encode()
    return pa.RecordBatch.from_arrays(columns, schema=POINTS)


async def test_copy_of_a_group_has_the_rows_of_a_series_that_is_added_meanwhile(
    streams: Streams, settings: AgentSettings, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalogue = Catalogue()

    async def apply(segment: Segment, _: IndexEntry) -> None:
        await catalogue.apply(segment)

    group = SeriesFilter(group=("g",))
    async with open_copies(streams, settings, clock, "b") as copies:
        await streams.create(RAW, POINTS)
        raw = await streams.get(RAW)
        raw.log.attach(SegmentConsumer(apply))
        found = await copies.request(CopyRequest("b", RAW, group, why="so"))
        reader = CopyReader(copies)
        reader.open(streams, catalogue)
        described = [{"metricID": "w", "entityID": "w", "group": "g"}]
        await raw.writer.append(without_attributes(1), series=described)
        _, chunks = await reader.follow("b", found.id, 0, 0, OpenSubscriptions())
        with_rows = (each async for each in chunks if each.rows.num_rows)
        assert (await anext(with_rows)).rows["ts"].to_pylist() == [1]
        gate, head, waits = close_gate(monkeypatch, 0), raw.log.head, asyncio.Event()
        wait = Pace.wait

        async def observed(pace: Pace, changed: asyncio.Event, position: Position) -> None:
            waits.set()
            await wait(pace, changed, position)

        monkeypatch.setattr(Pace, "wait", observed)
        rows = without_attributes(2, 3)
        putting = asyncio.create_task(raw.writer.append(rows, series=described))
        await gate.wait_reached()
        # Only the points of the segment add the series again.
        catalogue.set_latest(("w", "w"), None)
        following = asyncio.ensure_future(anext(with_rows))
        await waits.wait()
        assert raw.log.head == head, "the follower has found no row yet"
        gate.open()
        await putting
        assert (await following).rows["ts"].to_pylist() == [2, 3]


def test_copy_is_replaced_by_one_that_covers_it() -> None:
    assert replaces(copy("c"), copy("b", filter=CPU))
    assert not replaces(copy("c", filter=CPU), copy("b"))
    assert replaces(copy(withheld=(CPU,)), copy(withheld=(CPU, MEM)))
    assert not replaces(copy(withheld=(CPU, MEM)), copy(withheld=(CPU,)))
    again = copy(incarnation=1)
    assert not replaces(again, copy())
    assert (
        replica_stream_name("a", again)
        == f"replicas/a/raw/{again.id}"
        != replica_stream_name("a", copy())
    )
