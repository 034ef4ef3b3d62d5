"""The form of a stream on the wire: an Arrow IPC stream whose batches say which rows they are.

Each batch's custom metadata holds a ``Position``; a batch without rows is a heartbeat, which
only moves the position.
"""

import io
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

MEDIA_TYPE = "application/vnd.apache.arrow.stream"


@dataclass(frozen=True, slots=True)
class Position:
    """How far a subscriber is: numbers below ``next`` are read, event time to ``frontier``.

    ``frontier`` is in milliseconds since the epoch.
    """

    next: int
    frontier: int


@dataclass(frozen=True, slots=True)
class Chunk:
    """Rows of a stream in their order, and the position after them."""

    rows: pa.RecordBatch
    position: Position


class ChunkEncoder:
    """Turns chunks into bytes that, one after the other, are one Arrow IPC stream."""

    def __init__(self, schema: pa.Schema) -> None:
        self._sink = io.BytesIO()
        self._writer = pa.ipc.new_stream(self._sink, schema)

    def encode(self, chunk: Chunk) -> bytes:
        """Return the bytes of one chunk (with the schema's, before the first)."""
        position = {
            "next": str(chunk.position.next),
            "frontier": str(chunk.position.frontier),
        }
        self._writer.write_batch(chunk.rows, custom_metadata=position)
        return self._taken()

    def close(self) -> bytes:
        """Return the bytes that end the stream."""
        self._writer.close()
        return self._taken()

    def _taken(self) -> bytes:
        data = self._sink.getvalue()
        self._sink.seek(0)
        self._sink.truncate()
        return data


def decode(source: pa.NativeFile | io.RawIOBase | io.BytesIO) -> Iterator[Chunk]:
    """Read chunks from a readable binary file as they come."""
    with pa.ipc.open_stream(source) as reader:
        while True:
            try:
                rows, metadata = reader.read_next_batch_with_custom_metadata()
            except StopIteration:
                return
            yield Chunk(rows, Position(int(metadata["next"]), int(metadata["frontier"])))


def encode_rows(rows: pa.RecordBatch | pa.Table) -> bytes:
    """Return rows as a complete Arrow IPC stream: the body of an append."""
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write(rows)
    return sink.getvalue()
