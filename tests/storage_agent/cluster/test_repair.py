"""Filling what is missing of a log, on one real Ignite."""

from collections.abc import AsyncIterator

from storage_agent.cluster.repair import Repair, nothing
from storage_agent.cluster.replica_rows import Part
from storage_agent.ignite_client import HISTORICAL
from storage_agent.streams.segments import segment_key
from tests.storage_agent.conftest import HeldClock
from tests.storage_agent.streams.conftest import opener as opener
from tests.storage_agent.streams.opening import Opener, rows, times


async def parts(*found: Part) -> AsyncIterator[Part]:
    for part in found:
        yield part


async def holed(opener: Opener) -> int:
    """Store twelve rows in commits of two, lose those of 4, 5, 8, 9, 10 and 11; return the head."""
    stream = await opener.open()
    for number in range(0, 12, 2):
        await stream.writer.append(rows(number, number + 1))
    await opener.ignite.remove_all(HISTORICAL, [segment_key("s", number) for number in (4, 8, 10)])
    return stream.log.head


async def test_rows_take_the_numbers_that_they_had_around_what_survived(
    opener: Opener, clock: HeldClock
) -> None:
    goal = await holed(opener)
    log = (await opener.open()).log
    assert log.head == 4
    # The replica's own commits are others; of 8 it has nothing, as if that had been a claim.
    there = parts(Part(rows(3, 4, 5, 6), 7), Part(rows(7), 8), Part(rows(9, 10, 11), 12))
    done = await Repair(log, opener.ignite, clock, goal).fill(there)
    assert (done.missing, done.restored, log.head) == (6, 5, 12)
    again = (await opener.open()).log
    assert await times(again) == [0, 1, 2, 3, 4, 5, 6, 7, 9, 10, 11]
    assert again.index[again.index.at(9)].first == 9


async def test_what_nobody_has_stands_for_no_row(opener: Opener, clock: HeldClock) -> None:
    goal = await holed(opener)
    log = (await opener.open()).log
    done = await Repair(log, opener.ignite, clock, goal).fill(nothing())
    assert (done.missing, done.restored, log.head) == (6, 0, 12)
    again = await opener.open()
    assert await times(again.log) == [0, 1, 2, 3, 6, 7]
    assert (await again.writer.append(rows(12))).first == 12
