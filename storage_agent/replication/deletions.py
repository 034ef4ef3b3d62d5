"""Telling a replica what was deleted at its source, each deletion at its place among the rows."""

from collections.abc import AsyncIterator, Callable
from itertools import takewhile

import msgspec
import pyarrow as pa

from mistbow.streams.wire import Chunk, Position
from storage_agent.streams.manifest import Deletion, Manifest
from storage_agent.streams.segments import no_rows


class Deleted(msgspec.Struct, frozen=True, omit_defaults=True):
    """Deletions to be done in turn; those up to the number ``last`` will not be told again.

    ``missed``: the source has forgotten some of those that the replica has not heard of.
    """

    last: int
    deletions: tuple[Deletion, ...] = ()
    missed: bool = False


async def with_deletions(
    chunks: AsyncIterator[Chunk],
    manifest: Callable[[], Manifest],
    schema: pa.Schema,
    start: int,
    told: int | None,
) -> AsyncIterator[Chunk]:
    """Yield chunks from a number on, and between them what was deleted after ``told``.

    A deletion is of all rows before a number. Chunks that end at or before that may have been read
    before it, however much later they are sent: it is done for good where they end, and until then
    once for what is held already. All others were read after it: it comes before them, and so
    leaves alone what was stored since. None is told where nothing is held yet.
    """
    position = Position(start, 0)
    if told is None:
        # What is read from now on is without all that was deleted so far.
        told = manifest().deleted
        yield _noted(schema, position, Deleted(told))
    elif told > manifest().deleted:
        told = 0  # the source lost its deletions, and counts anew
    early = told
    async for chunk in chunks:
        end, new = chunk.position.next, _after(manifest(), told)
        if new is None:
            told, new = manifest().deleted, ()
            yield _noted(schema, position, Deleted(told, missed=True))
        if over := _up_to(end - 1, new):
            told = over[-1].id
            yield _noted(schema, position, Deleted(told, over))
        position = chunk.position
        yield chunk
        left = new[len(over) :]
        if ends := _up_to(end, left):
            told = ends[-1].id
        if now := tuple(each for each in left if each.id > early or each in ends):
            early = now[-1].id
            yield _noted(schema, position, Deleted(told, now))


def _up_to(number: int, deletions: tuple[Deletion, ...]) -> tuple[Deletion, ...]:
    """Return the first of them that are of rows before at most this number."""
    return tuple(takewhile(lambda each: each.before <= number, deletions))


def _after(manifest: Manifest, told: int) -> tuple[Deletion, ...] | None:
    """Return what was deleted after ``told``; None: that is not known any more."""
    new = tuple(each for each in manifest.deletions if each.id > told)
    return None if len(new) < manifest.deleted - told else new


def _noted(schema: pa.Schema, position: Position, deleted: Deleted) -> Chunk:
    return Chunk(no_rows(schema), position, msgspec.json.encode(deleted).decode())
