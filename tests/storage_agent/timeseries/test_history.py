"""Reading many points in bounded batches, outside the event loop."""

import json
import threading
from typing import Any

import pyarrow as pa
import pytest

from mistbow.errors import TooLargeError
from mistbow.streams.schemas import POINTS
from storage_agent.streams import compaction, maintenance, runs, segment_store
from storage_agent.streams.maintenance import GRACE_MS, Maintenance, StorageLimit
from storage_agent.streams.streams import Stream
from storage_agent.timeseries.history import History
from tests.storage_agent.conftest import ManualClock
from tests.storage_agent.streams.opener import Opener

SERIES = {("m", f"e{number}"): {"metricID": "m", "entityID": f"e{number}"} for number in range(40)}
COMMITS = 12


def points(at: int) -> pa.RecordBatch:
    entities = [entity for _, entity in SERIES]
    columns = [
        *(pa.array(c, pa.string()).dictionary_encode() for c in (["m"] * 40, entities, entities)),
        # Later ones are earlier in time, and two of a series share one.
        pa.array([at - number % 2 for number in range(40)], pa.int64()),
        pa.array([at / 8 + number for number in range(40)]),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=POINTS)


@pytest.fixture
async def merged(
    opener: Opener, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> tuple[Stream, pa.Table]:
    """Return a stream whose points are all in one run of several blocks, and the points."""
    monkeypatch.setattr(compaction, "SEGMENTS_PER_RUN", COMMITS)
    monkeypatch.setattr(runs, "_ROWS_PER_BLOCK", 64)
    monkeypatch.setattr(segment_store, "_INLINE_BYTES", 0)
    stream = await opener.open(POINTS, 1000)
    sent = [points(clock.now - 50 * (number // 2)) for number in range(COMMITS)]
    for each in [*sent, sent[0].slice(0, 1)]:
        await stream.writer.append(each)
    await Maintenance(lambda: [stream.log], clock, StorageLimit, lambda _: True).run()
    assert [run.blocks for run in stream.log.manifest.current.runs] == [8]
    return await opener.open(POINTS, 1000), pa.Table.from_batches([*sent, sent[0].slice(0, 1)])


async def test_blocks_are_decoded_one_by_one_in_a_thread(
    merged: tuple[Stream, pa.Table], clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream, sent = merged
    threads = []
    decode = runs.decode_points

    def noted(data: bytes) -> pa.Table:
        threads.append(threading.current_thread())
        return decode(data)

    monkeypatch.setattr(runs, "decode_points", noted)
    monkeypatch.setattr("storage_agent.timeseries.history._MAX_BATCH_ROWS", 1)
    found = []
    async for batch in History(stream.log).batches(SERIES, 0, clock.now, columns=("value",)):
        found.append(batch.num_rows)
        assert len(threads) == min(len(found), 8)
    assert sum(found) == sent.num_rows
    assert threading.main_thread() not in threads


async def test_grouped_points_are_encoded_by_series_and_time(
    merged: tuple[Stream, pa.Table], clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("storage_agent.timeseries.grouped_points._MAX_ENCODED_POINTS", 5)
    monkeypatch.setattr("storage_agent.timeseries.grouped_points._CHUNK_BYTES", 100)
    stream, sent = merged
    history = History(stream.log)
    points = await history.read_grouped(SERIES, 0, clock.now)
    assert len(points) == sent.num_rows
    pieces = list(points.to_json())
    assert len(pieces) > 50
    expected: list[dict[str, Any]] = []
    for (_, entity), metadata in SERIES.items():
        rows = [row for row in sent.to_pylist() if row["entity"] == entity]
        expected_values = [{"timestamp": r["ts"], "val": r["value"]} for r in rows]
        expected.append(
            {**metadata, "values": sorted(expected_values, key=lambda v: v["timestamp"])}
        )
    assert json.loads(b"".join(pieces)) == expected
    assert b"".join((await history.read_grouped(SERIES, 0, 1)).to_json()) == b"[]"
    monkeypatch.setattr("storage_agent.timeseries.history.MAX_POINTS", sent.num_rows - 1)
    with pytest.raises(TooLargeError):
        await history.read_grouped(SERIES, 0, clock.now)


async def test_read_during_compaction_has_no_deleted_points(
    merged: tuple[Stream, pa.Table], clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("storage_agent.timeseries.history._MAX_BATCH_ROWS", 1)
    monkeypatch.setattr(maintenance, "_MAX_TOMBSTONES", 0)
    stream, _ = merged
    series = sorted(SERIES)
    await stream.writer.delete(("metric", "entity"), series[20:])
    reading = History(stream.log).batches(SERIES, 0, clock.now)
    found = [await anext(reading)]
    housekeeper = Maintenance(lambda: [stream.log], clock, StorageLimit, lambda _: True)
    await housekeeper.run()
    assert not stream.log.manifest.current.tombstones
    found += [batch async for batch in reading]
    rows = pa.Table.from_batches(found).to_pylist()
    assert {(row["metric"], row["entity"]) for row in rows} == set(series[:20])
    # What was merged is removed then, and the deletion with it.
    clock.now += GRACE_MS
    await housekeeper.run()
    assert not stream.log.tombstones
