"""Restoration of lost rows in the log of a stream, on a real Ignite."""

import secrets
from collections.abc import AsyncIterator

import pyarrow as pa

from mistbow.streams.events import event_rows
from mistbow.streams.schemas import EVENTS, POINTS
from storage_agent.cluster.log_fill import LogFill, no_parts
from storage_agent.cluster.replica_rows import NumberedRows
from storage_agent.ignite.client import HISTORICAL
from storage_agent.streams.segments import segment_key
from tests.storage_agent.conftest import ManualClock
from tests.storage_agent.streams.conftest import opener as opener
from tests.storage_agent.streams.opener import Opener, rows, times


async def parts(*found: NumberedRows) -> AsyncIterator[NumberedRows]:
    for part in found:
        yield part


async def holed(opener: Opener) -> int:
    """Store twelve rows, two in each segment; remove the rows 4, 5 and 8 to 11; return the head."""
    stream = await opener.open()
    for number in range(0, 12, 2):
        await stream.writer.append(rows(number, number + 1))
    await opener.ignite.remove_all(HISTORICAL, [segment_key("s", number) for number in (4, 8, 10)])
    return stream.log.head


async def test_log_fill_restores_rows_at_their_positions_around_survivors(
    opener: Opener, clock: ManualClock
) -> None:
    goal = await holed(opener)
    log = (await opener.open()).log
    assert log.head == 4
    # The replica has other segments, and no row at 8, as if a claim had taken that position.
    there = parts(
        NumberedRows(rows(3, 4, 5, 6), 7),
        NumberedRows(rows(7), 8),
        NumberedRows(rows(9, 10, 11), 12),
    )
    done = await LogFill(log, opener.ignite, clock, goal).fill(there)
    assert (done.missing, done.restored, log.head) == (6, 5, 12)
    again = (await opener.open()).log
    assert await times(again) == [0, 1, 2, 3, 4, 5, 6, 7, 9, 10, 11]
    assert again.index[again.index.find(9)].first == 9


async def test_log_fill_skips_positions_without_a_replica(
    opener: Opener, clock: ManualClock
) -> None:
    goal = await holed(opener)
    log = (await opener.open()).log
    done = await LogFill(log, opener.ignite, clock, goal).fill(no_parts())
    assert (done.missing, done.restored, log.head) == (6, 0, 12)
    again = await opener.open()
    assert await times(again.log) == [0, 1, 2, 3, 6, 7]
    assert (await again.writer.append(rows(12))).first == 12


async def test_log_fill_stores_the_metadata_of_many_series_in_several_segments(
    opener: Opener, clock: ManualClock
) -> None:
    count, described = 8000, 12_000
    entities = [f"e{number}" for number in range(described)]
    series = [{"metricID": "m", "entityID": e, "desc": secrets.token_hex(500)} for e in entities]
    names = pa.array(entities[:count]).dictionary_encode()
    others = pa.array(["m"] * count).dictionary_encode()
    times_of = pa.array(range(count), pa.int64())
    columns = [others, names, others, times_of, pa.array([1.0] * count)]
    lost = pa.RecordBatch.from_arrays(columns, schema=POINTS)
    log = (await opener.open(POINTS)).log
    done = await LogFill(log, opener.ignite, clock, count, series).fill(
        parts(NumberedRows(lost, count))
    )
    assert (done.missing, done.restored) == (count, count)
    again = (await opener.open(POINTS)).log
    segments = await again.segments(list(again.index.entries_from(0)))
    assert await times(again) == list(range(count))
    found: set[str] = set()
    for segment in segments:
        found |= {each["entityID"] for each in segment.header.series}
        # A reader needs the metadata of a series with its first point.
        assert found >= set(segment.rows["entity"].to_pylist())
    assert found == set(entities)


async def test_log_fill_stores_a_part_that_is_too_large_in_several_segments(
    opener: Opener, clock: ManualClock
) -> None:
    facts = {f"fact-{number}": secrets.token_hex(500) for number in range(10_000)}
    log = (await opener.open(EVENTS)).log
    lost = event_rows(clock.now, facts)
    done = await LogFill(log, opener.ignite, clock, len(facts)).fill(
        parts(NumberedRows(lost, len(facts)))
    )
    assert (done.missing, done.restored) == (len(facts), len(facts))
    again = (await opener.open(EVENTS)).log
    segments = await again.segments(list(again.index.entries_from(0)))
    assert [each for s in segments for each in s.rows["key"].to_pylist()] == list(facts)
