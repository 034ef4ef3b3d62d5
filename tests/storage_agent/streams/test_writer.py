"""Writers of streams on a real Ignite: commits, recovery, fencing, points ahead."""

import asyncio

import pytest

from mistbow.errors import FencedError
from mistbow.streams.schemas import POINTS
from tests.storage_agent.conftest import HeldClock
from tests.storage_agent.streams.opening import Opener, points, rows, times
from tests.support.waiting import aeventually


async def test_what_waits_together_is_committed_together(opener: Opener) -> None:
    stream = await opener.open()
    answers = await asyncio.gather(*(stream.writer.append(rows(i, i)) for i in range(100)))
    assert [answer.first for answer in answers] == list(range(0, 200, 2))
    assert len(stream.log.index) <= 3
    assert await times(stream.log) == [i // 2 for i in range(200)]


async def test_a_repeat_in_the_same_commit_is_told_apart(opener: Opener) -> None:
    stream = await opener.open()
    keys = ["a", "a", "b", "a", None, None]
    answers = await asyncio.gather(*(stream.writer.append(rows(1), key=key) for key in keys))
    assert len({answer.first for answer in answers}) == 4
    assert stream.log.head == 4


async def test_two_writers_of_one_epoch_interleave_without_loss(opener: Opener) -> None:
    one, two = await opener.open(), await opener.open()
    appends = [(one, two)[i % 2].writer.append(rows(i)) for i in range(60)]
    answers = await asyncio.gather(*appends)
    assert sorted(answer.first for answer in answers) == list(range(60))
    third = await opener.open()
    assert sorted(await times(third.log)) == list(range(60))
    assert [(await times(third.log))[answer.first] for answer in answers] == list(range(60))


async def test_a_claim_elsewhere_fences_this_writer(opener: Opener) -> None:
    old, new = await opener.open(), await opener.open()
    epoch = (await old.writer.claim()).epoch
    await old.writer.append(rows(1), epoch=epoch)
    newer = (await new.writer.claim()).epoch
    assert newer > epoch
    with pytest.raises(FencedError):
        await old.writer.append(rows(2), epoch=epoch)
    with pytest.raises(FencedError):
        await old.writer.advance(epoch, frontier=9)
    await new.writer.append(rows(3), epoch=newer)
    # The other agent has not seen the claim, but takes its epoch when it meets it.
    await old.writer.append(rows(4), epoch=newer)
    assert await times((await opener.open()).log) == [1, 3, 4]


async def test_a_commit_never_mixes_epochs(opener: Opener) -> None:
    here, elsewhere = await opener.open(), await opener.open()
    old = (await here.writer.claim()).epoch
    new = (await elsewhere.writer.claim()).epoch
    appends = [here.writer.append(rows(i), epoch=epoch) for i, epoch in enumerate((old, new, old))]
    answers = await asyncio.gather(*appends, return_exceptions=True)
    assert [isinstance(answer, FencedError) for answer in answers] == [True, False, True]
    assert await times(here.log) == [1]


async def test_racing_claims_get_different_epochs(opener: Opener) -> None:
    streams = [await opener.open() for _ in range(4)]
    states = await asyncio.gather(*(stream.writer.claim() for stream in streams))
    assert len({state.epoch for state in states}) == 4
    last = max(state.epoch for state in states)
    for stream, state in zip(streams, states, strict=True):
        if state.epoch < last:
            with pytest.raises(FencedError):
                await stream.writer.append(rows(1), epoch=state.epoch)


async def test_an_idle_frontier_moves_while_somebody_asks_and_survives(
    opener: Opener, clock: HeldClock
) -> None:
    stream = await opener.open(POINTS, 1000)
    epoch = await stream.writer.own()
    begin = stream.log.frontier
    assert begin == clock.now - 1000
    clock.now += 700
    stream.log.ask()
    await aeventually(lambda: _is(stream.log.frontier == begin + 700))
    again = await opener.open(POINTS, 1000)
    assert again.log.frontier == begin + 700
    await stream.writer.append(points(begin + 700, begin + 701), epoch=epoch)
    assert stream.log.index.late == 1
    clock.now -= 5000
    await stream.writer.append(points(begin + 9000), epoch=epoch)
    assert stream.log.frontier == begin + 700


async def test_points_ahead_are_released_once_also_by_a_successor(
    opener: Opener, clock: HeldClock
) -> None:
    stream = await opener.open(POINTS, 1000)
    epoch = await stream.writer.own()
    begin = clock.now
    ahead = [begin + 60_000, begin + 20_000, begin + 60_001]
    await stream.writer.append(points(*ahead, begin), epoch=epoch)
    assert await times(stream.log) == [begin]
    clock.now = begin + 10_000
    stream.log.work.set()
    await aeventually(lambda: _is(len(stream.log.index) == 3))
    assert await times(stream.log) == [begin, begin + 20_000]
    await stream.writer.close()
    successor = await opener.open(POINTS, 1000)
    clock.now = begin + 50_000
    await successor.writer.own()
    await aeventually(lambda: _is(successor.log.index[-1].rows == 1))
    assert await times(successor.log) == [begin, begin + 20_000, begin + 60_000]
    clock.now += 1000
    await aeventually(lambda: _is(not successor.log.ahead))
    last = await opener.open(POINTS, 1000)
    assert await times(last.log) == [begin, begin + 20_000, begin + 60_000, begin + 60_001]
    assert not last.log.ahead


async def test_who_is_cancelled_while_a_writer_closes_is_cancelled(opener: Opener) -> None:
    stream = await opener.open()
    closing = asyncio.create_task(stream.writer.close())
    await asyncio.sleep(0)
    closing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await closing


async def _is(condition: bool) -> bool:
    return condition
