"""Telling a replica what was deleted at its source, each deletion at its place among the rows."""

from collections.abc import AsyncIterator, Callable

import msgspec
import pyarrow as pa

from mistbow.streams.wire import Chunk, Position
from storage_agent.streams.manifest import Deletion, Manifest
from storage_agent.streams.segments import no_rows


class Deleted(msgspec.Struct, frozen=True, omit_defaults=True):
    """Deletions up to the number ``last``, to be done in turn.

    ``anew``: the source has forgotten some of those that the replica has not heard of.
    """

    last: int
    deletions: tuple[Deletion, ...] = ()
    anew: bool = False


async def with_deletions(
    chunks: AsyncIterator[Chunk],
    manifest: Callable[[], Manifest],
    schema: pa.Schema,
    start: int,
    told: int | None,
) -> AsyncIterator[Chunk]:
    """Yield chunks from a number on, and between them what was deleted after ``told``.

    A deletion is of all rows before a number. Chunks that end at or before that may have been read
    before it: it comes after them. All others were read after it: it comes before them, and so
    leaves alone what was stored since. None is told where nothing is held yet.
    """
    position = Position(start, 0)
    if told is None:
        # What is read from now on is without all that was deleted so far.
        told = manifest().deleted
        yield _noted(schema, position, Deleted(told))
    async for chunk in chunks:
        news = _news(manifest(), told)
        before = [each for each in news.deletions if each.before < chunk.position.next]
        if news.anew or before:
            told = news.last if news.anew else before[-1].id
            yield _noted(schema, position, Deleted(told, tuple(before), news.anew))
        position = chunk.position
        yield chunk
        after = [each for each in news.deletions if each.before >= chunk.position.next]
        if after and not news.anew:
            told = after[-1].id
            yield _noted(schema, position, Deleted(told, tuple(after)))


def _news(manifest: Manifest, told: int) -> Deleted:
    new = tuple(each for each in manifest.deletions if each.id > told)
    return Deleted(manifest.deleted, new, anew=len(new) < manifest.deleted - told)


def _noted(schema: pa.Schema, position: Position, deleted: Deleted) -> Chunk:
    return Chunk(no_rows(schema), position, msgspec.json.encode(deleted).decode())
