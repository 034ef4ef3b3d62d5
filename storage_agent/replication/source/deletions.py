"""Puts the source's deletions between the chunks of rows that a follower reads."""

from collections.abc import AsyncIterator, Callable
from itertools import takewhile

import msgspec
import pyarrow as pa

from mistbow.errors import UnavailableError
from mistbow.streams.wire import MAX_INT64, Chunk, Position
from storage_agent.streams.manifest import Manifest, Tombstone
from storage_agent.streams.segments import empty_batch


class DeletionNotice(
    msgspec.Struct, frozen=True, omit_defaults=True, rename={"was_incomplete": "missed"}
):
    """Deletions at the source that a replica must apply, in the given order.

    ``last``: the number of a deletion; the source does not send the deletions up to this number to
    the replica again. ``was_incomplete``: whether the source no longer has some deletions that the
    replica has not received.
    """

    last: int
    deletions: tuple[Tombstone, ...] = ()
    was_incomplete: bool = False


_NOTICE = msgspec.json.Decoder(DeletionNotice)


def decode_notice(note: str, schema: pa.Schema) -> DeletionNotice:
    """Return the notice that a source has sent; ``schema``: of the replica's stream.

    Raises ``UnavailableError`` if the notice is malformed, or has deletions that the stream cannot
    store: a stolen site may send any notice, and this agent could not read such a notice at its
    next start.
    """
    try:
        notice = _NOTICE.decode(note)
    except msgspec.MsgspecError as error:
        raise UnavailableError(f"the source sent a malformed notice: {error}") from error
    numbers = [notice.last]
    for each in notice.deletions:
        numbers += [each.min_ts or 0, each.max_ts or 0]
        arities = {len(key) for key in each.keys}
        has_columns = arities <= {len(each.columns)} and 0 not in arities
        if not (has_columns and set(each.columns) <= set(schema.names)):
            raise UnavailableError("the source sent a deletion whose keys do not fit its stream")
    if not all(-MAX_INT64 <= number <= MAX_INT64 for number in numbers):
        raise UnavailableError("the source sent a deletion with an impossible number or time")
    return notice


async def interleave_deletions(
    chunks: AsyncIterator[Chunk],
    manifest: Callable[[], Manifest],
    schema: pa.Schema,
    start: int,
    received: int | None,
) -> AsyncIterator[Chunk]:
    """Yield ``chunks``, and between the chunks the deletions with numbers above ``received``.

    A deletion applies to all rows before its position. Chunks that end at or before this position
    may have been read before the deletion, even if the chunks are sent later. Therefore the
    deletion is sent twice: at once, for the rows that the replica has already, and again after the
    last chunk that may have been read before the deletion. Chunks that end beyond the position were
    read after the deletion.

    ``manifest``: returns the present manifest of the source. ``start``: the position of the first
    chunk. ``received``: the number of the last deletion that the replica received; None: the
    replica is empty, and needs no earlier deletion.
    """
    position = Position(start, 0)
    if received is None:
        # Rows that are read from now on lack everything that was deleted so far.
        received = manifest().last_tombstone
        yield _notice(schema, position, DeletionNotice(received))
    elif received > manifest().last_tombstone:
        received = 0  # the source lost its tombstones, and numbers them anew
    applied_early = received
    async for chunk in chunks:
        end, new = chunk.position.next, _tombstones_after(manifest(), received)
        if new is None:
            received, new = manifest().last_tombstone, ()
            yield _notice(schema, position, DeletionNotice(received, was_incomplete=True))
        if before := _up_to(end - 1, new):
            received = before[-1].id
            yield _notice(schema, position, DeletionNotice(received, before))
        position = chunk.position
        yield chunk
        left = new[len(before) :]
        if ending := _up_to(end, left):
            received = ending[-1].id
        if now := tuple(each for each in left if each.id > applied_early or each in ending):
            applied_early = now[-1].id
            yield _notice(schema, position, DeletionNotice(received, now))


def _up_to(position: int, tombstones: tuple[Tombstone, ...]) -> tuple[Tombstone, ...]:
    """Return the tombstones that precede the first tombstone with ``before`` above ``position``."""
    return tuple(takewhile(lambda each: each.before <= position, tombstones))


def _tombstones_after(manifest: Manifest, received: int) -> tuple[Tombstone, ...] | None:
    """Return the tombstones with numbers above ``received``.

    Returns None if the manifest has dropped some of these tombstones.
    """
    new = tuple(each for each in manifest.tombstones if each.id > received)
    return None if len(new) < manifest.last_tombstone - received else new


def _notice(schema: pa.Schema, position: Position, notice: DeletionNotice) -> Chunk:
    return Chunk(empty_batch(schema), position, msgspec.json.encode(notice).decode())
