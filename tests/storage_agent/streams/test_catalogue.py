"""The catalogue after a restart during which segments were merged, on a real Ignite."""

import pyarrow as pa
import pytest

from mistbow.streams.schemas import POINTS
from storage_agent.ignite.client import METADATA
from storage_agent.streams import compaction
from storage_agent.streams.consumer import SegmentConsumer
from storage_agent.streams.index import IndexEntry
from storage_agent.streams.maintenance import GRACE_MS, Maintenance, StorageLimit
from storage_agent.streams.segments import Segment
from storage_agent.timeseries.catalogue import Catalogue
from storage_agent.timeseries.checkpoint import APPLIED_KEY
from tests.storage_agent.conftest import ManualClock
from tests.storage_agent.streams.opener import Opener


def points(*rows: tuple[str, int, float]) -> pa.RecordBatch:
    entities, times, values = zip(*rows, strict=True)
    words = [pa.array(c).dictionary_encode() for c in (["m"] * len(rows), entities, entities)]
    columns = [*words, pa.array(times, pa.int64()), pa.array(values)]
    return pa.RecordBatch.from_arrays(columns, schema=POINTS)


def latest(catalogue: Catalogue) -> dict[str, tuple[object, ...]]:
    """Return the latest values of a catalogue: entity -> (time, value, times of arrival), in ms.

    The entity ``ahead`` has no times of arrival, because a run may omit them.
    """
    found = {}
    for series in catalogue.select():
        value = catalogue.latest(series)
        assert value is not None
        came = () if series[1] == "ahead" else (value.created, value.seen)
        found[series[1]] = (value.ts, value.value, *came)
    return found


async def test_recovery_from_inside_a_run(
    opener: Opener, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compaction, "SEGMENTS_PER_RUN", 5)
    stream = await opener.open(POINTS, 1000)
    before = Catalogue()

    async def apply(segment: Segment, _: IndexEntry) -> None:
        await before.apply(segment)

    stream.log.attach(SegmentConsumer(apply))
    now = clock.now
    described = [{"metricID": "m", "entityID": "a", "units": "W"}]
    await stream.writer.append(points(("a", now, 1.0)), series=described)
    await stream.writer.append(points(("b", now, 2.0), ("a", now, 3.0)))
    await before.checkpoint(opener.ignite)
    for rows in (
        points(("a", now, 4.0), ("c", now - 5, 5.0)),
        points(("ahead", now + 60_000, 6.0)),
        points(("a", now - 1, 7.0), ("c", now - 5, 8.0)),
        points(("d", now, 9.0)),
    ):
        clock.now += 10
        await stream.writer.append(rows)
    housekeeper = Maintenance(lambda: [stream.log], clock, StorageLimit, lambda _: True)
    await housekeeper.run()
    clock.now += GRACE_MS
    await housekeeper.run()
    assert [entry.blocks > 0 for entry in stream.log.index.entries_from(0)] == [True, False]

    stored = await opener.ignite.scan(METADATA)
    inside = int(stored[APPLIED_KEY])
    assert 0 < inside < stream.log.manifest.current.runs[0].next
    again = (await opener.open(POINTS, 1000)).log
    for metadata in (stored, {**stored, APPLIED_KEY: b"0"}):
        after = Catalogue()
        await after.recover(opener.ignite, metadata, again)
        assert dict(after.select().items()) == dict(before.select().items())
        assert latest(after) == latest(before)
