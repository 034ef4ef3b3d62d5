"""Reading many past points: little of them at a time, and none of it in the event loop."""

import json
import threading
from typing import Any

import pyarrow as pa
import pytest

from mistbow.errors import TooLargeError
from mistbow.streams.schemas import POINTS
from storage_agent.monitoring.history import History
from storage_agent.streams import compaction, housekeeping, runs, segment_store
from storage_agent.streams.housekeeping import GRACE_MS, Bound, Housekeeper
from storage_agent.streams.streams import Stream
from tests.storage_agent.conftest import HeldClock
from tests.storage_agent.streams.opening import Opener

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
    opener: Opener, clock: HeldClock, monkeypatch: pytest.MonkeyPatch
) -> tuple[Stream, pa.Table]:
    """Return a stream whose points are all in one run of several blocks, and these."""
    monkeypatch.setattr(compaction, "COMMITS", COMMITS)
    monkeypatch.setattr(runs, "_ROWS_A_BLOCK", 64)
    monkeypatch.setattr(segment_store, "_HERE_BYTES", 0)
    stream = await opener.open(POINTS, 1000)
    sent = [points(clock.now - 50 * (number // 2)) for number in range(COMMITS)]
    for each in [*sent, sent[0].slice(0, 1)]:
        await stream.writer.append(each)
    await Housekeeper(lambda: [stream.log], clock, Bound, lambda _: True).keep()
    assert [run.blocks for run in stream.log.manifest.current.runs] == [8]
    return await opener.open(POINTS, 1000), pa.Table.from_batches([*sent, sent[0].slice(0, 1)])


async def test_blocks_are_decoded_one_after_the_other_and_not_in_the_loop(
    merged: tuple[Stream, pa.Table], clock: HeldClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream, sent = merged
    threads = []
    decode = runs.decode_points

    def noted(data: bytes) -> pa.Table:
        threads.append(threading.current_thread())
        return decode(data)

    monkeypatch.setattr(runs, "decode_points", noted)
    monkeypatch.setattr("storage_agent.monitoring.history._ROWS_AT_ONCE", 1)
    found = []
    async for batch in History(stream.log).batches(SERIES, 0, clock.now, columns=("value",)):
        found.append(batch.num_rows)
        assert len(threads) == min(len(found), 8)
    assert sum(found) == sent.num_rows
    assert threading.main_thread() not in threads


async def test_values_are_told_by_series_and_time(
    merged: tuple[Stream, pa.Table], clock: HeldClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("storage_agent.monitoring.values._AT_ONCE", 5)
    monkeypatch.setattr("storage_agent.monitoring.values._PIECE_BYTES", 100)
    stream, sent = merged
    history = History(stream.log)
    values = await history.values(SERIES, 0, clock.now)
    assert len(values) == sent.num_rows
    pieces = list(values.json())
    assert len(pieces) > 50
    expected: list[dict[str, Any]] = []
    for (_, entity), metadata in SERIES.items():
        rows = [row for row in sent.to_pylist() if row["entity"] == entity]
        told = [{"timestamp": r["ts"], "val": r["value"]} for r in rows]
        expected.append({**metadata, "values": sorted(told, key=lambda v: v["timestamp"])})
    assert json.loads(b"".join(pieces)) == expected
    assert b"".join((await history.values(SERIES, 0, 1)).json()) == b"[]"
    monkeypatch.setattr("storage_agent.monitoring.history.MOST_VALUES", sent.num_rows - 1)
    with pytest.raises(TooLargeError):
        await history.values(SERIES, 0, clock.now)


async def test_a_read_that_lasts_through_a_merge_sees_nothing_that_was_deleted_before(
    merged: tuple[Stream, pa.Table], clock: HeldClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("storage_agent.monitoring.history._ROWS_AT_ONCE", 1)
    monkeypatch.setattr(housekeeping, "_MOST_DELETIONS", 0)
    stream, _ = merged
    series = sorted(SERIES)
    await stream.writer.delete(("metric", "entity"), series[20:])
    reading = History(stream.log).batches(SERIES, 0, clock.now)
    found = [await anext(reading)]
    housekeeper = Housekeeper(lambda: [stream.log], clock, Bound, lambda _: True)
    await housekeeper.keep()
    assert not stream.log.manifest.current.deletions
    found += [batch async for batch in reading]
    rows = pa.Table.from_batches(found).to_pylist()
    assert {(row["metric"], row["entity"]) for row in rows} == set(series[:20])
    # What was merged is removed then, and the deletion with it.
    clock.now += GRACE_MS
    await housekeeper.keep()
    assert not stream.log.deletions
