"""The log of a stream: its phases, its first position, and its consumer."""

import asyncio

import pytest

from mistbow.errors import UnavailableError
from storage_agent.ignite.client import IgniteClient
from storage_agent.streams.consumer import SegmentConsumer
from storage_agent.streams.index import Index, IndexEntry
from storage_agent.streams.log import LogPhase, StreamLog
from storage_agent.streams.segment_store import SegmentStore
from storage_agent.streams.segments import Segment
from tests.storage_agent.streams.opener import SCHEMA, Opener, rows, times


async def test_segment_whose_application_fails_is_in_the_log_and_the_next_is_applied(
    opener: Opener,
) -> None:
    stream = await opener.open()
    applied: list[int] = []

    async def apply(segment: Segment, _: IndexEntry) -> None:
        assert stream.log.head == segment.header.first, "the log does not contain it yet"
        if segment.rows["ts"][0].as_py() == 1:
            raise ValueError("the first segment")
        applied.append(segment.header.first)

    stream.log.attach(SegmentConsumer(apply))
    with pytest.raises(ValueError, match="the first segment"):
        await stream.writer.append(rows(1))
    result = await stream.writer.append(rows(2))
    assert (result.first, applied) == (1, [1])
    assert await times(stream.log) == [1, 2]


async def test_segment_whose_application_is_repeated_is_in_the_log_once(opener: Opener) -> None:
    stream = await opener.open()
    applied: list[int] = []

    async def apply(segment: Segment, _: IndexEntry) -> None:
        applied.append(segment.header.first)
        raise UnavailableError("the writer repeats the append")

    stream.log.attach(SegmentConsumer(apply))
    result = await stream.writer.append(rows(1, 2))
    assert (result.first, applied, await times(stream.log)) == (0, [0], [1, 2])
    assert stream.log.bytes == stream.log.index.bytes


async def test_two_tasks_that_catch_up_add_a_segment_once(opener: Opener) -> None:
    writer = (await opener.open()).writer
    log = (await opener.open()).log
    applied: list[int] = []

    async def apply(segment: Segment, _: IndexEntry) -> None:
        await asyncio.sleep(0)
        applied.append(segment.header.first)

    log.attach(SegmentConsumer(apply))
    await writer.append(rows(1))
    await writer.append(rows(2))
    await asyncio.gather(log.catch_up(), log.catch_up())
    assert (applied, await times(log)) == ([0, 1], [1, 2])


async def test_log_rejects_a_consumer_before_its_recovery_and_a_second_one() -> None:
    log = StreamLog("s", SCHEMA, SegmentStore(IgniteClient([])))

    async def apply(segment: Segment, entry: IndexEntry) -> None: ...

    consumer = SegmentConsumer(apply, lambda: 7)
    with pytest.raises(RuntimeError, match="only after recover"):
        log.attach(consumer)
    log.phase = LogPhase.OPEN
    assert log.compaction_limit() == log.head
    log.attach(consumer)
    assert log.compaction_limit() == 7
    with pytest.raises(RuntimeError, match="only once"):
        log.attach(consumer)


def test_index_without_entries_begins_and_ends_where_the_first_entry_will_begin() -> None:
    index = Index(5)
    assert (index.first, index.head, index.find(3), index.find(5)) == (5, 5, 0, 0)
    assert index.seek(0) == 5
