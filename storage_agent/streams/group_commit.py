"""Group commit: builds one segment from all waiting appends, without I/O."""

import itertools
import secrets
from asyncio import Future
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from msgspec.structs import replace as replace_struct

from mistbow.errors import ConflictError, FencedError, MistbowError, ReusedKeyError
from storage_agent.request_key import RequestKey
from storage_agent.streams.columns import Columns, as_batch, estimate_bytes
from storage_agent.streams.idempotency_keys import IdempotencyKeys
from storage_agent.streams.index import time_range
from storage_agent.streams.segments import AppendResult, Segment, SegmentHeader, empty_batch
from storage_agent.streams.state import State

_COMMIT_ROWS = 20_000
_COMMIT_BYTES = 4 * 2**20
"""The number of rows, and the size (bytes) of rows and of metadata of series, from which further
appends are in the next segment.
"""

Other = TypeVar("Other")

# Each segment that each process of an agent writes has a nonce of its own.
_PROCESS = secrets.token_hex(8)
_NUMBERS = itertools.count()


@dataclass(frozen=True, slots=True)
class PendingAppend:
    """Rows that wait to be stored, and the future that receives the result.

    ``series``: metadata of series that are new or changed. ``frontier``: the stream's new frontier,
    which is stored atomically with the rows.
    """

    rows: pa.RecordBatch | Columns
    epoch: int | None
    key: RequestKey | None
    done: Future[AppendResult]
    series: Sequence[dict[str, Any]] = field(default=())
    frontier: int = 0


@dataclass(frozen=True, slots=True)
class Command:
    """A queued change other than an append, and the future for the stream's new state."""

    run: Callable[[], Awaitable[State]]
    done: Future[State]


@dataclass(frozen=True, slots=True)
class SegmentContext:
    """The part of the next segment's header that depends on the state of the stream.

    ``frontier_before``: the frontier of the stream before the segment. ``limit``: rows with a
    greater ``ts`` are future points; None: the stream has no future points.
    """

    stream: str
    schema: pa.Schema
    first: int
    epoch: int
    frontier_before: int
    frontier: int
    created: int
    released: int
    limit: int | None = None


def take_appends(queue: deque[PendingAppend | Other]) -> list[PendingAppend]:
    """Remove the appends at the front of a queue that fit into one segment, and return them.

    Another change in the queue ends the segment before it.
    """
    taken: list[PendingAppend] = []
    rows = size = 0
    while queue and rows < _COMMIT_ROWS:
        append = queue[0]
        if not isinstance(append, PendingAppend):
            break
        size += _estimate_bytes(append)
        if taken and size > _COMMIT_BYTES:
            break
        queue.popleft()
        taken.append(append)
        rows += append.rows.num_rows
    return taken


def _estimate_bytes(append: PendingAppend) -> int:
    # Metadata is in the header of a segment, which is not compressed.
    metadata = len(msgspec.json.encode(append.series)) if append.series else 0
    return estimate_bytes(append.rows) + metadata


def answer_known(append: PendingAppend, keys: IdempotencyKeys) -> bool:
    """Answer an append whose idempotency key belongs to a recent append; return whether it does.

    A repeated append receives the result of that append; an append of another body is rejected.
    """
    try:
        result = keys.get(append.key)
    except ReusedKeyError as error:
        reject(append.done, error)
        return True
    if result is not None:
        resolve(append.done, result)
    return result is not None


def build_segment(
    context: SegmentContext, appends: Sequence[PendingAppend]
) -> tuple[Segment, list[AppendResult]]:
    """Return one segment with the rows of all appends, and the result of each append."""
    parts = [append.rows for append in appends]
    rows = as_batch(parts)
    future_points = empty_batch(context.schema)
    counts = [part.num_rows for part in parts]
    context = replace(context, frontier=max(context.frontier, *(one.frontier for one in appends)))
    limit = context.limit
    if limit is not None and rows.num_rows and time_range(rows)[1] > limit:
        counts = [_up_to(as_batch([part]), limit).num_rows for part in parts]
        future_points = rows.filter(pc.greater(rows["ts"], limit))
        rows = _up_to(rows, limit)
    results = _results(context, counts)
    keys = {
        append.key.text: replace_struct(result, digest=append.key.digest)
        for append, result in zip(appends, results, strict=True)
        if append.key is not None
    }
    series = [series for append in appends for series in append.series]
    header = _header(context, max(1, rows.num_rows), keys=keys, series=series)
    return Segment(header, rows, future_points), results


def build_release(context: SegmentContext, due: Sequence[pa.RecordBatch]) -> Segment:
    """Return a segment whose rows are ``due``: future points whose times have come."""
    rows = pa.concat_batches(due)
    return Segment(_header(context, max(1, rows.num_rows)), rows, empty_batch(context.schema))


def build_claim(context: SegmentContext) -> Segment:
    """Return a segment that takes one position, but has no rows: it may begin an epoch."""
    return Segment(_header(context, 1), empty_batch(context.schema), empty_batch(context.schema))


def _header(context: SegmentContext, count: int, **more: Any) -> SegmentHeader:
    return SegmentHeader(
        stream=context.stream,
        first=context.first,
        count=count,
        epoch=context.epoch,
        nonce=f"{_PROCESS}-{next(_NUMBERS)}",
        frontier=context.frontier,
        frontier_before=context.frontier_before,
        created=context.created,
        released=context.released,
        **more,
    )


def _results(context: SegmentContext, counts: Sequence[int]) -> list[AppendResult]:
    results = []
    first = context.first
    for count in counts:
        results.append(AppendResult(first, first + count, context.frontier))
        first += count
    return results


def _up_to(rows: pa.RecordBatch, limit: int) -> pa.RecordBatch:
    return rows.filter(pc.less_equal(rows["ts"], limit))


def epoch_error(stream: str, epoch: int, now: int) -> MistbowError | None:
    """Return the error of a change with an epoch, while the greatest epoch of a stream is ``now``.

    Returns None if the epochs are equal.
    """
    if epoch < now:
        return FencedError(
            f"the epoch {epoch} of the stream {stream} is fenced; the greatest epoch is {now}",
            hint="Another writer has claimed the stream; claim it again to write.",
        )
    if epoch > now:
        return ConflictError(
            f"the stream {stream} has no epoch {epoch}; its greatest epoch is {now}"
        )
    return None


def resolve(done: Future[Any], value: object) -> None:
    """Set the result of a queued change, unless its client has disconnected."""
    if not done.done():
        done.set_result(value)


def reject(done: Future[Any], error: Exception) -> None:
    """Set the error of a queued change, unless its client has disconnected."""
    if not done.done():
        done.set_exception(error)
