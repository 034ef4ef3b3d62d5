"""Writers of streams on a real Ignite: commits, recovery, fencing and future points."""

import asyncio
import secrets
from collections.abc import Awaitable, Sequence

import pytest
from structlog.testing import capture_logs

from mistbow.errors import FencedError, TooLargeError, UnavailableError
from mistbow.streams.schemas import POINTS
from storage_agent.request_key import RequestKey
from storage_agent.streams import group_commit, log
from storage_agent.streams.segments import Segment
from storage_agent.streams.state import State
from tests.storage_agent.conftest import ManualClock
from tests.storage_agent.streams.opener import FixedPolicy, Opener, points, rows, times
from tests.support.conditions import aeventually


async def test_waiting_appends_share_one_segment(opener: Opener) -> None:
    stream = await opener.open()
    answers = await asyncio.gather(*(stream.writer.append(rows(i, i)) for i in range(100)))
    assert [answer.first for answer in answers] == list(range(0, 200, 2))
    assert len(stream.log.index) <= 3
    assert await times(stream.log) == [i // 2 for i in range(200)]


async def test_segments_are_read_in_parts_of_limited_size(
    opener: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = await opener.open()
    for i in range(5):
        await stream.writer.append(rows(i))
    size = stream.log.index[0].bytes
    monkeypatch.setattr(log, "_MAX_READ_BYTES", 2 * size)
    requested: list[int] = []
    again = await opener.open()
    get_all = again.log.store.get_all

    def count(name: str, firsts: Sequence[int]) -> Awaitable[list[Segment]]:
        requested.append(len(firsts))
        return get_all(name, firsts)

    monkeypatch.setattr(again.log.store, "get_all", count)
    assert await times(again.log) == [0, 1, 2, 3, 4]
    assert requested == [2, 2, 1]


async def test_repeated_key_in_one_group_is_stored_once(opener: Opener) -> None:
    stream = await opener.open()
    keys = [*map(RequestKey, "aaba"), None, None]
    answers = await asyncio.gather(*(stream.writer.append(rows(1), key=each) for each in keys))
    assert len({answer.first for answer in answers}) == 4
    assert stream.log.head == 4


def described(mib: float) -> list[dict[str, str]]:
    """Return metadata of a series that takes about ``mib`` MiB, and cannot be compressed."""
    return [{"metricID": "m", "entityID": "e", "desc": secrets.token_hex(int(mib * 2**19))}]


async def test_group_whose_metadata_is_too_large_is_stored_in_several_segments(
    opener: Opener,
) -> None:
    stream = await opener.open()
    metadata = [described(2.5) for _ in range(4)]
    appends = [stream.writer.append(rows(i), series=each) for i, each in enumerate([*metadata, []])]
    answers = await asyncio.gather(*appends)
    assert [answer.first for answer in answers] == [0, 1, 2, 3, 4]
    assert await times((await opener.open()).log) == [0, 1, 2, 3, 4]


async def test_append_that_is_too_large_does_not_reject_others_of_its_group(
    opener: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Whatever else makes a segment larger than it was estimated.
    monkeypatch.setattr(group_commit, "_COMMIT_BYTES", 2**40)
    stream = await opener.open()
    metadata = [[], [], described(8), [], described(3)]
    appends = [stream.writer.append(rows(i), series=each) for i, each in enumerate(metadata)]
    answers = await asyncio.gather(*appends, return_exceptions=True)
    assert isinstance(answers.pop(2), TooLargeError)
    assert not any(isinstance(each, Exception) for each in answers)
    assert await times((await opener.open()).log) == [0, 1, 3, 4]


async def test_writers_of_one_epoch_interleave_without_loss(opener: Opener) -> None:
    one, two = await opener.open(), await opener.open()
    appends = [(one, two)[i % 2].writer.append(rows(i)) for i in range(60)]
    answers = await asyncio.gather(*appends)
    assert sorted(answer.first for answer in answers) == list(range(60))
    third = await opener.open()
    assert sorted(await times(third.log)) == list(range(60))
    assert [(await times(third.log))[answer.first] for answer in answers] == list(range(60))


async def test_claim_by_another_agent_fences_the_writer(opener: Opener) -> None:
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


async def test_segment_never_mixes_epochs(opener: Opener) -> None:
    here, elsewhere = await opener.open(), await opener.open()
    old = (await here.writer.claim()).epoch
    new = (await elsewhere.writer.claim()).epoch
    appends = [here.writer.append(rows(i), epoch=epoch) for i, epoch in enumerate((old, new, old))]
    answers = await asyncio.gather(*appends, return_exceptions=True)
    assert [isinstance(answer, FencedError) for answer in answers] == [True, False, True]
    assert await times(here.log) == [1]


async def test_racing_claims_get_different_epochs(opener: Opener) -> None:
    streams = [await opener.open() for _ in range(4)]
    claims = (stream.writer.claim() for stream in streams)
    answers = await asyncio.gather(*claims, return_exceptions=True)
    # A claim that another claim overtakes before its end may be refused already.
    states = [
        (stream, each)
        for stream, each in zip(streams, answers, strict=True)
        if isinstance(each, State)
    ]
    assert all(isinstance(each, State | FencedError) for each in answers)
    assert len({state.epoch for _, state in states}) == len(states)
    last = max(state.epoch for _, state in states)
    for stream, state in states:
        if state.epoch < last:
            with pytest.raises(FencedError):
                await stream.writer.append(rows(1), epoch=state.epoch)


async def test_idle_frontier_moves_while_watched_and_survives_a_restart(
    opener: Opener, clock: ManualClock
) -> None:
    stream = await opener.open(POINTS, 1000)
    epoch = await stream.writer.claim_timed()
    begin = stream.log.frontier
    assert begin == clock.now - 1000
    clock.now += 700
    stream.log.watch()
    await aeventually(lambda: _is(stream.log.frontier == begin + 700))
    again = await opener.open(POINTS, 1000)
    assert again.log.frontier == begin + 700
    await stream.writer.append(points(begin + 700, begin + 701), epoch=epoch)
    assert stream.log.index.late == 1
    clock.now -= 5000
    await stream.writer.append(points(begin + 9000), epoch=epoch)
    assert stream.log.frontier == begin + 700


@pytest.mark.parametrize(
    ("error", "level", "field", "value"),
    [
        (UnavailableError("Ignite is away"), "warning", "error", "Ignite is away"),
        (ZeroDivisionError("a bug"), "error", "exc_info", None),
    ],
)
async def test_failed_move_of_the_frontier_is_logged_with_its_cause(
    opener: Opener,
    monkeypatch: pytest.MonkeyPatch,
    error: Exception,
    level: str,
    field: str,
    value: object,
) -> None:
    stream = await opener.open()
    await stream.writer.append(rows(1))

    def fail() -> int:
        raise error

    monkeypatch.setattr(stream.writer, "_clock", fail)
    with capture_logs() as events:
        stream.log.activity.work.set()
        await aeventually(lambda: _is(bool(events)))
    event = events[0]
    assert (event["event"], event["log_level"]) == ("frontier_move_failed", level)
    assert event[field] == (value or error)


async def test_future_points_are_released_once_also_by_a_successor(
    opener: Opener, clock: ManualClock
) -> None:
    stream = await opener.open(POINTS, 1000)
    epoch = await stream.writer.claim_timed()
    begin = clock.now
    ahead = [begin + 60_000, begin + 20_000, begin + 60_001]
    await stream.writer.append(points(*ahead, begin), epoch=epoch)
    assert await times(stream.log) == [begin]
    clock.now = begin + 10_000
    stream.log.activity.work.set()
    await aeventually(lambda: _is(len(stream.log.index) == 3))
    assert await times(stream.log) == [begin, begin + 20_000]
    await stream.writer.close()
    successor = await opener.open(POINTS, 1000)
    clock.now = begin + 50_000
    await successor.writer.claim_timed()
    await aeventually(lambda: _is(successor.log.index[-1].rows == 1))
    assert await times(successor.log) == [begin, begin + 20_000, begin + 60_000]
    clock.now += 1000
    await aeventually(lambda: _is(not successor.log.future_points))
    last = await opener.open(POINTS, 1000)
    assert await times(last.log) == [begin, begin + 20_000, begin + 60_000, begin + 60_001]
    assert not last.log.future_points


@pytest.mark.parametrize("reason", ["deleted", "expired"])
async def test_invisible_future_points_are_forgotten_when_they_are_due(
    opener: Opener, clock: ManualClock, reason: str
) -> None:
    stream = await opener.open(POINTS, 1000)
    epoch = await stream.writer.claim_timed()
    begin = clock.now
    await stream.writer.append(points(begin + 20_000), epoch=epoch)
    if reason == "deleted":
        await stream.writer.delete([], [])
    else:
        stream.log.policy = FixedPolicy(expired=begin + 1)
    clock.now = begin + 30_000
    stream.log.activity.work.set()
    await aeventually(lambda: _is(not stream.log.future_points))
    await stream.writer.append(points(clock.now), epoch=epoch)
    assert await times(stream.log) == [clock.now]


async def test_writer_close_passes_on_cancellation(opener: Opener) -> None:
    stream = await opener.open()
    closing = asyncio.create_task(stream.writer.close())
    await asyncio.sleep(0)
    closing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await closing


async def _is(condition: bool) -> bool:
    return condition
