"""Subscriptions in small parts: they have the rows of others, and retain little."""

import asyncio
import gc
from collections.abc import AsyncIterator
from contextlib import ExitStack

import numpy as np
import pyarrow as pa
import pytest

from mistbow.streams.schemas import POINTS
from mistbow.streams.wire import Chunk, decode
from storage_agent.streams import small_parts, subscription
from storage_agent.streams.compaction import Compaction, compact
from storage_agent.streams.small_parts import OpenSubscriptions, SmallParts, follow_in_small_parts
from storage_agent.streams.streams import Stream
from storage_agent.streams.subscription import RowSelection, RowSelector
from tests.storage_agent.conftest import ManualClock
from tests.storage_agent.streams.opener import Opener, points, rows


@pytest.fixture(autouse=True)
def few_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(small_parts, "_MIN_ROWS", 3)
    monkeypatch.setattr(small_parts, "_ROWS", 3)


async def _stored(opener: Opener, clock: ManualClock) -> Stream:
    """Store the times 0 to 39 in segments of 1 to 4 rows; the first segments are merged."""
    stream = await opener.open()
    begin = 0
    for number in range(16):
        size = number % 4 + 1
        await stream.writer.append(rows(*range(begin, begin + size)))
        begin += size
    await compact(stream.log, Compaction(range(8), 1), clock)
    return stream


async def _read(
    stream: Stream, selection: RowSelection, start: int = 0, end: int | None = None
) -> tuple[list[Chunk], int]:
    """Return the chunks of a subscription in small parts, and the number of its parts."""
    selector = RowSelector(stream, selection)
    small = SmallParts(stream.log, selector, OpenSubscriptions(), start, end, follow=False)
    parts = [part async for part in small.encode(await small.read())]
    return decode(b"".join(parts)), len(parts)


def _times(chunks: list[Chunk]) -> list[int]:
    return [ts for chunk in chunks for ts in chunk.rows["ts"].to_pylist()]


@pytest.mark.parametrize(
    ("selection", "start", "end"),
    [
        (RowSelection(), 0, None),
        (RowSelection(), 5, 31),
        (RowSelection(), 40, None),
        (RowSelection(min_ts=17, max_ts=33), 0, None),
        (RowSelection(min_ts=39), 0, None),
        (RowSelection(max_ts=-1), 0, None),
    ],
)
async def test_small_parts_have_the_rows_and_the_end_of_a_read(
    opener: Opener, clock: ManualClock, selection: RowSelection, start: int, end: int | None
) -> None:
    stream = await _stored(opener, clock)
    selector = RowSelector(stream, selection)
    expected = [each.chunk async for each in subscription.read(stream.log, selector, start, end)]
    found, parts = await _read(stream, selection, start, end)
    assert _times(found) == _times(expected)
    assert found[-1].position == expected[-1].position
    if (selection, start, end) == (RowSelection(), 0, None):
        assert parts > 10


async def test_run_is_read_in_few_parts(
    opener: Opener, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = await _stored(opener, clock)
    [run] = [each for each in stream.log.index.entries_from(0) if each.blocks]
    in_many, parts = await _read(stream, RowSelection(), end=run.next)
    assert parts > 4
    monkeypatch.setattr(small_parts, "_RUN_PARTS", 1)
    in_one, parts = await _read(stream, RowSelection(), end=run.next)
    assert _times(in_one) == _times(in_many)
    assert parts == 2, "all rows, and the end of the stream"


async def test_small_part_has_few_bytes_if_the_rows_are_large(opener: Opener) -> None:
    schema = pa.schema([pa.field("value", pa.binary())])
    stream = await opener.open(schema)
    for number in range(3):
        value = np.random.default_rng(number).bytes(3 * 2**20)
        await stream.writer.append(pa.record_batch([[value]], schema=schema))
    small = SmallParts(
        stream.log, RowSelector(stream, RowSelection()), OpenSubscriptions(), 0, None, follow=False
    )
    parts = [len(part) async for part in small.encode(await small.read())]
    assert max(parts) < 4 * 2**20, "each has one segment"


async def test_small_parts_follow_new_rows(opener: Opener, clock: ManualClock) -> None:
    stream = await _stored(opener, clock)
    selector = RowSelector(stream, RowSelection())
    small = SmallParts(stream.log, selector, OpenSubscriptions(), 38, None, follow=True)
    parts = small.encode(await small.read())
    data = await anext(parts)
    waiting = asyncio.ensure_future(_until(parts, data, 4))
    await stream.writer.append(rows(40, 41))
    async with asyncio.timeout(10):
        assert await waiting == [38, 39, 40, 41]


async def _until(parts: AsyncIterator[bytes], data: bytes, count: int) -> list[int]:
    """Return the times of a subscription as soon as it has ``count`` rows."""
    while True:
        found = _times(decode(data + b"\xff\xff\xff\xff\0\0\0\0"))
        if len(found) >= count:
            return found
        data += await anext(parts)


async def test_a_reader_that_takes_nothing_retains_no_rows(opener: Opener) -> None:
    stream = await opener.open()
    for number in range(4):
        await stream.writer.append(rows(*range(number * 10_000, number * 10_000 + 10_000)))
    selector = RowSelector(stream, RowSelection())
    stream.log.store._cache.clear()
    gc.collect()
    before = pa.total_allocated_bytes()
    with ExitStack() as stack:
        subscriptions = OpenSubscriptions()
        for _ in range(20):
            stack.enter_context(subscriptions.counted())
        small = SmallParts(stream.log, selector, subscriptions, 0, None, follow=True)
        parts = small.encode(await small.read())
        assert len(await anext(parts)) > 80_000
        stream.log.store._cache.clear()
        gc.collect()
        assert pa.total_allocated_bytes() - before < 20_000


async def test_rows_in_small_parts_are_those_of_a_subscription(
    opener: Opener, clock: ManualClock
) -> None:
    stream = await _stored(opener, clock)
    selector = RowSelector(stream, RowSelection())
    found: list[Chunk] = []
    async for each in follow_in_small_parts(stream.log, selector, OpenSubscriptions(), 5):
        found.append(each.chunk)
        if each.position.next == 40:
            break
    expected = [each.chunk async for each in subscription.read(stream.log, selector, 5)]
    assert _times(found) == _times(expected)
    assert found[-1].position == expected[-1].position
    assert max(chunk.rows.num_rows for chunk in found) <= 5


async def test_small_part_of_a_run_retains_no_other_rows(
    opener: Opener, clock: ManualClock
) -> None:
    stream = await opener.open(POINTS)
    for number in range(8):
        await stream.writer.append(points(*range(number * 10_000, number * 10_000 + 10_000)))
    await compact(stream.log, Compaction(range(8), 1), clock)
    selector = RowSelector(stream, RowSelection())
    stream.log.store._cache.clear()
    gc.collect()
    before = pa.total_allocated_bytes()
    feed = follow_in_small_parts(stream.log, selector, OpenSubscriptions(), 0)
    first = await anext(feed)
    assert first.rows.num_rows == 10_000
    assert first.rows.schema == selector.schema
    stream.log.store._cache.clear()
    gc.collect()
    assert pa.total_allocated_bytes() - before < 1_000_000
    await feed.aclose()


def test_memory_is_divided_among_many_subscriptions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    subscriptions = OpenSubscriptions()
    with ExitStack() as stack:
        for _ in range(16):
            stack.enter_context(subscriptions.counted())
        assert (subscriptions.are_many, subscriptions.rows) == (False, 50_000)
        for _ in range(484):
            stack.enter_context(subscriptions.counted())
        assert (subscriptions.are_many, subscriptions.rows) == (True, 1600)
    assert not subscriptions.are_many
