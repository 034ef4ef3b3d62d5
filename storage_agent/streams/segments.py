"""A segment: the rows of one commit, with what it says of the stream, as one value in Ignite."""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import msgspec
import pyarrow as pa

from mistbow.errors import MistbowError

_HEADER = b"mistbow"
# A segment's buffers are so small that handing them to threads takes longer than they do.
_OPTIONS = pa.ipc.IpcWriteOptions(compression="lz4", use_threads=False)


class Appended(msgspec.Struct, frozen=True, array_like=True):
    """What an append did: its rows have the numbers ``first`` to ``next`` (without it)."""

    first: int
    next: int
    frontier: int


class Header(msgspec.Struct, frozen=True, kw_only=True):
    """What a segment says of itself and of its stream. All times are milliseconds.

    ``count`` is how many numbers it takes: its rows', or one for a claim, which has no rows.
    ``released``: the points ahead up to here are rows of this segment or of an earlier one.
    """

    stream: str
    first: int
    count: int
    epoch: int
    nonce: str
    frontier: int
    horizon: int
    created: int
    released: int = 0
    keys: dict[str, Appended] = msgspec.field(default_factory=dict)
    series: list[dict[str, Any]] = msgspec.field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Segment:
    """Rows numbered from ``header.first``, and points ahead of the clock, not yet numbered.

    ``stored``: the bytes that it takes in Ignite, 0 where it is not there yet.
    """

    header: Header
    rows: pa.RecordBatch
    ahead: pa.RecordBatch
    stored: int = 0

    @property
    def next(self) -> int:
        """The number after its last."""
        return self.header.first + self.header.count

    @property
    def size(self) -> int:
        """Bytes of its rows in memory."""
        return int(self.rows.get_total_buffer_size() + self.ahead.get_total_buffer_size())


def segment_key(stream: str, first: int) -> str:
    """Return the key of the segment that begins at ``first``."""
    return f"{stream}/{first:020d}"


def encode_segment(segment: Segment) -> bytes:
    """Return the value that Ignite keeps: an Arrow IPC stream of one or two batches."""
    schema = segment.rows.schema.with_metadata({_HEADER: msgspec.json.encode(segment.header)})
    # Arrow's own: writing to an object of Python takes three times as long.
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema, options=_OPTIONS) as writer:
        writer.write_batch(segment.rows)
        if segment.ahead.num_rows:
            writer.write_batch(segment.ahead)
    return bytes(sink.getvalue())


def decode_segment(data: bytes) -> Segment:
    """Read a segment back; raises ``MistbowError`` if it is none."""
    try:
        with pa.ipc.open_stream(data) as reader:
            header = msgspec.json.decode(reader.schema.metadata[_HEADER], type=Header)
            schema = reader.schema.remove_metadata()
            batches = [pa.RecordBatch.from_arrays(b.columns, schema=schema) for b in reader]
    except (pa.ArrowInvalid, KeyError, TypeError, msgspec.DecodeError) as error:
        raise MistbowError("a stored segment cannot be read", details=str(error)) from error
    ahead = batches[1] if len(batches) > 1 else no_rows(schema)
    return Segment(header, batches[0], ahead, len(data))


@lru_cache(maxsize=64)
def no_rows(schema: pa.Schema) -> pa.RecordBatch:
    """Return a batch of a schema without rows."""
    return pa.RecordBatch.from_arrays([pa.array([], field.type) for field in schema], schema=schema)
