"""The order of deletions relative to the rows that a replica receives."""

from collections.abc import AsyncIterator

import msgspec
import pyarrow as pa

from mistbow.streams.wire import Chunk, Position
from storage_agent.replication.source.deletions import DeletionNotice, interleave_deletions
from storage_agent.streams.manifest import Manifest, Tombstone

SCHEMA = pa.schema([("x", pa.int64())])


class Source:
    """A stream whose chunks and deletions come in the order that a test sets."""

    def __init__(self, *steps: int | Tombstone) -> None:
        self.manifest = Manifest()
        self._steps = steps

    async def chunks(self) -> AsyncIterator[Chunk]:
        for step in self._steps:
            if isinstance(step, Tombstone):
                self.delete(step)
            else:
                rows = pa.record_batch([[step]], schema=SCHEMA)
                yield Chunk(rows, Position(step, 0))

    def delete(self, deletion: Tombstone) -> None:
        known = (*self.manifest.tombstones, deletion)
        self.manifest = Manifest(tombstones=known, last_tombstone=deletion.id)

    async def received(self, last: int | None) -> list[int | DeletionNotice]:
        """Return what a replica receives: the end position of a chunk of rows, or a
        ``DeletionNotice``.
        """
        chunks = interleave_deletions(self.chunks(), lambda: self.manifest, SCHEMA, 0, last)
        return [
            msgspec.json.decode(each.note, type=DeletionNotice) if each.note else each.position.next
            async for each in chunks
        ]


def deletion(number: int, before: int) -> Tombstone:
    return Tombstone(id=number, before=before, created=0)


async def test_deletion_follows_chunks_that_were_read_before_it() -> None:
    one = deletion(1, before=10)
    # The chunk up to 10 was on its way when its rows were deleted.
    assert await Source(5, one, 10, 15).received(0) == [5, 10, DeletionNotice(1, (one,)), 15]


async def test_deletion_precedes_rows_that_were_stored_since() -> None:
    one = deletion(1, before=10)
    assert await Source(5, one, 12).received(0) == [5, DeletionNotice(1, (one,)), 12]


async def test_deletions_are_interleaved_in_order() -> None:
    one, two = deletion(1, before=10), deletion(2, before=20)
    sent = await Source(5, one, two, 15, 20, 25).received(0)
    assert sent == [
        5,
        DeletionNotice(1, (one,)),
        15,
        DeletionNotice(1, (two,)),
        20,
        DeletionNotice(2, (two,)),
        25,
    ]


async def test_deletion_applies_to_rows_read_before_and_sent_after_it() -> None:
    one = deletion(1, before=20)
    # A run is read whole, and sent in parts: the rows of all three were read before the deletion.
    sent = await Source(5, one, 10, 20, 25).received(0)
    assert sent == [5, 10, DeletionNotice(0, (one,)), 20, DeletionNotice(1, (one,)), 25]
    # The feed was interrupted in between: deletions sent at once do not count.
    again = Source(10, 20)
    again.delete(one)
    assert await again.received(0) == [10, DeletionNotice(0, (one,)), 20, DeletionNotice(1, (one,))]


async def test_source_without_its_tombstones_numbers_them_anew() -> None:
    source = Source(5)
    source.delete(one := deletion(1, before=5))
    assert await source.received(7) == [5, DeletionNotice(1, (one,))]


async def test_empty_replica_receives_no_earlier_deletion() -> None:
    source = Source(5)
    source.delete(deletion(1, before=3))
    assert await source.received(None) == [DeletionNotice(1), 5]
    assert await source.received(1) == [5]


async def test_replica_is_notified_of_dropped_tombstones() -> None:
    source = Source(5)
    source.manifest = Manifest(tombstones=(deletion(3, before=4),), last_tombstone=3)
    first, *_ = await source.received(1)
    assert isinstance(first, DeletionNotice)
    assert first.was_incomplete
