"""The log of a stream before it has rows: its phases, and its first position."""

import pytest

from storage_agent.ignite.client import IgniteClient
from storage_agent.streams.index import Index
from storage_agent.streams.log import LogPhase, SegmentConsumer, StreamLog
from storage_agent.streams.segment_store import SegmentStore
from tests.storage_agent.streams.opener import SCHEMA


async def test_log_rejects_a_consumer_before_its_recovery_and_a_second_one() -> None:
    log = StreamLog("s", SCHEMA, SegmentStore(IgniteClient([])))
    consumer = SegmentConsumer(lambda segment, entry: None, lambda: 7)
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
