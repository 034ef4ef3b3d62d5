"""A segment: the rows of one commit, stored as one value in Ignite (header and Arrow batch)."""

import asyncio
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import msgspec
import pyarrow as pa

from mistbow.errors import MistbowError
from storage_agent.work_threads import MAX_LOOP_ITEMS

_HEADER = b"mistbow"
# The buffers of a segment are small: handing them to threads takes longer than compressing them.
_OPTIONS = pa.ipc.IpcWriteOptions(compression="lz4", use_threads=False)


# Not tracked by the collector: recent segments contain hundreds of thousands of results.
class AppendResult(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The result of an append: the rows have the positions from ``first`` to ``next - 1``.

    ``frontier``: the stream's frontier after the append. ``digest``: the digest of the request's
    body; 0: unknown, as in segments of earlier versions.
    """

    first: int
    next: int
    frontier: int
    digest: int = 0


class SegmentHeader(msgspec.Struct, frozen=True, kw_only=True):
    """The header of a segment. All times are milliseconds.

    ``count``: the number of positions that the segment takes: the number of its rows. A segment
    without rows takes 1 position, or the positions of the lost rows that it replaces.
    ``frontier_before``: the frontier before the segment; rows with times up to this frontier are
    late. ``released``: future points up to this time are rows of this segment or of an earlier
    segment. ``keys``: the idempotency keys of the segment's appends, as key -> result of the
    append. ``series``: metadata of series that are new or changed.
    """

    stream: str
    first: int
    count: int
    epoch: int
    nonce: str
    frontier: int
    frontier_before: int = msgspec.field(name="horizon")
    created: int
    released: int = 0
    keys: dict[str, AppendResult] = msgspec.field(default_factory=dict)
    series: list[dict[str, Any]] = msgspec.field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Segment:
    """The rows of one commit, and its future points.

    The rows have the positions from ``header.first`` on; future points do not have positions yet.
    ``stored``: the size in Ignite (bytes); 0: the segment is not stored yet.
    """

    header: SegmentHeader
    rows: pa.RecordBatch
    future_points: pa.RecordBatch
    stored: int = 0

    @property
    def next(self) -> int:
        """The position after the segment."""
        return self.header.first + self.header.count

    @property
    def size(self) -> int:
        """The size of the rows and future points in memory (bytes)."""
        return int(self.rows.get_total_buffer_size() + self.future_points.get_total_buffer_size())


def segment_key(stream: str, first: int) -> str:
    """Return the key of the segment at the position ``first`` in Ignite's cache ``historical``.

    ``stream``: the key of the stream's log.
    """
    return f"{stream}/{first:020d}"


def encode_segment(segment: Segment) -> bytes:
    """Encode a segment as an Arrow IPC stream of its rows and, if any, its future points."""
    schema = segment.rows.schema.with_metadata({_HEADER: msgspec.json.encode(segment.header)})
    # A sink of Arrow: writing to a Python object takes three times as long.
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema, options=_OPTIONS) as writer:
        writer.write_batch(segment.rows)
        if segment.future_points.num_rows:
            writer.write_batch(segment.future_points)
    return bytes(sink.getvalue())


async def encode_after_pause(segment: Segment) -> bytes:
    """Encode a segment; other tasks may run before a large segment is encoded."""
    if segment.rows.num_rows > MAX_LOOP_ITEMS:
        await asyncio.sleep(0)
    return encode_segment(segment)


def decode_segment(data: bytes) -> Segment:
    """Decode a stored segment; raises ``MistbowError`` if the segment is damaged."""
    try:
        with pa.ipc.open_stream(data) as reader:
            header = msgspec.json.decode(reader.schema.metadata[_HEADER], type=SegmentHeader)
            schema = reader.schema.remove_metadata()
            batches = [pa.RecordBatch.from_arrays(b.columns, schema=schema) for b in reader]
    except (pa.ArrowInvalid, KeyError, TypeError, msgspec.DecodeError) as error:
        raise MistbowError("a stored segment cannot be decoded", details=str(error)) from error
    future_points = batches[1] if len(batches) > 1 else empty_batch(schema)
    return Segment(header, batches[0], future_points, len(data))


@lru_cache(maxsize=64)
def empty_batch(schema: pa.Schema) -> pa.RecordBatch:
    """Return a batch that has the given schema and no rows."""
    return pa.RecordBatch.from_arrays([pa.array([], field.type) for field in schema], schema=schema)
