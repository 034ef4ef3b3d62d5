"""Restoration of lost rows in the log of a stream, on a real Ignite."""

from collections.abc import AsyncIterator

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
