"""Where among the rows a replica hears of a deletion."""

from collections.abc import AsyncIterator

import msgspec
import pyarrow as pa

from mistbow.streams.wire import Chunk, Position
from storage_agent.replication.deletions import Deleted, with_deletions
from storage_agent.streams.manifest import Deletion, Manifest

SCHEMA = pa.schema([("x", pa.int64())])


class Source:
    """A stream of which a test decides what is read and deleted when."""

    def __init__(self, *steps: int | Deletion) -> None:
        self.manifest = Manifest()
        self._steps = steps

    async def chunks(self) -> AsyncIterator[Chunk]:
        for step in self._steps:
            if isinstance(step, Deletion):
                self.delete(step)
            else:
                rows = pa.record_batch([[step]], schema=SCHEMA)
                yield Chunk(rows, Position(step, 0))

    def delete(self, deletion: Deletion) -> None:
        known = (*self.manifest.deletions, deletion)
        self.manifest = Manifest(deletions=known, deleted=deletion.id)

    async def heard(self, told: int | None) -> list[int | Deleted]:
        """Return what a replica hears: the ends of chunks, and deletions."""
        chunks = with_deletions(self.chunks(), lambda: self.manifest, SCHEMA, 0, told)
        return [
            msgspec.json.decode(each.note, type=Deleted) if each.note else each.position.next
            async for each in chunks
        ]


def deletion(number: int, before: int) -> Deletion:
    return Deletion(id=number, before=before, created=0)


async def test_it_comes_after_what_may_be_read_before_it() -> None:
    one = deletion(1, before=10)
    # The chunk up to 10 was on its way when its rows were deleted.
    assert await Source(5, one, 10, 15).heard(0) == [5, 10, Deleted(1, (one,)), 15]


async def test_it_comes_before_what_was_stored_since() -> None:
    one = deletion(1, before=10)
    assert await Source(5, one, 12).heard(0) == [5, Deleted(1, (one,)), 12]


async def test_each_has_its_place() -> None:
    one, two = deletion(1, before=10), deletion(2, before=20)
    heard = await Source(5, one, two, 15, 20, 25).heard(0)
    assert heard == [5, Deleted(1, (one,)), 15, Deleted(1, (two,)), 20, Deleted(2, (two,)), 25]


async def test_what_was_read_before_it_and_is_sent_after_it_is_deleted_too() -> None:
    one = deletion(1, before=20)
    # A run is read whole, and sent in parts: the rows of all three were read before the deletion.
    heard = await Source(5, one, 10, 20, 25).heard(0)
    assert heard == [5, 10, Deleted(0, (one,)), 20, Deleted(1, (one,)), 25]
    # It broke off in between, at either side: what was told at once does not count.
    again = Source(10, 20)
    again.delete(one)
    assert await again.heard(0) == [10, Deleted(0, (one,)), 20, Deleted(1, (one,))]


async def test_a_source_that_lost_its_deletions_counts_anew() -> None:
    source = Source(5)
    source.delete(one := deletion(1, before=5))
    assert await source.heard(7) == [5, Deleted(1, (one,))]


async def test_who_has_nothing_needs_to_hear_of_none() -> None:
    source = Source(5)
    source.delete(deletion(1, before=3))
    assert await source.heard(None) == [Deleted(1), 5]
    assert await source.heard(1) == [5]


async def test_who_missed_one_that_is_forgotten_hears_that() -> None:
    source = Source(5)
    source.manifest = Manifest(deletions=(deletion(3, before=4),), deleted=3)
    first, *_ = await source.heard(1)
    assert isinstance(first, Deleted)
    assert first.missed
