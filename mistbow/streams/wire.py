"""The wire format of streams: an Arrow IPC stream with a ``Position`` in each batch's metadata.

A batch without rows is a heartbeat, which only advances the position.
"""

import io
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa

from mistbow.streams.flatbuffers import field_offset, root_table

MEDIA_TYPE = "application/vnd.apache.arrow.stream"


@dataclass(frozen=True, slots=True)
class Position:
    """The position of a subscriber: the position of the next row, and the frontier (ms) reached
    there.
    """

    next: int
    frontier: int


@dataclass(frozen=True, slots=True)
class Chunk:
    """Rows of a stream, and the position after the last row.

    ``note``: JSON that a replication source sends with the rows.
    """

    rows: pa.RecordBatch
    position: Position
    note: str = ""


class ChunkEncoder:
    """Encodes chunks as one Arrow IPC stream."""

    def __init__(self, schema: pa.Schema) -> None:
        self._sink = io.BytesIO()
        self._writer = pa.ipc.new_stream(self._sink, schema)

    def encode(self, chunk: Chunk) -> bytes:
        """Return the bytes of a chunk; the bytes of the first chunk begin with the schema."""
        position = {
            "next": str(chunk.position.next),
            "frontier": str(chunk.position.frontier),
        }
        if chunk.note:
            position["note"] = chunk.note
        self._writer.write_batch(chunk.rows, custom_metadata=position)
        return take_written(self._sink)

    def close(self) -> bytes:
        """Return the bytes of the end of the stream."""
        self._writer.close()
        return take_written(self._sink)


def take_written(sink: io.BytesIO) -> bytes:
    """Return the bytes that were written to a buffer, and empty the buffer."""
    data = sink.getvalue()
    sink.seek(0)
    sink.truncate()
    return data


def decode(source: pa.NativeFile | io.RawIOBase | io.BytesIO) -> Iterator[Chunk]:
    """Yield each chunk of a readable binary file as soon as the chunk arrives."""
    with pa.ipc.open_stream(source) as reader:
        while True:
            try:
                rows, metadata = reader.read_next_batch_with_custom_metadata()
            except StopIteration:
                return
            yield _chunk(rows, metadata)


def _chunk(rows: pa.RecordBatch, metadata: Mapping[str, bytes]) -> Chunk:
    position = Position(int(metadata["next"]), int(metadata["frontier"]))
    return Chunk(rows, position, metadata["note"].decode() if "note" in metadata else "")


def encode_rows(rows: pa.RecordBatch | pa.Table) -> bytes:
    """Return rows as a complete Arrow IPC stream: the body of an append."""
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write(rows)
    return sink.getvalue()


class ChunkDecoder:
    """Decodes chunks from an Arrow IPC stream that arrives in parts of any size; never blocks."""

    def __init__(self) -> None:
        self._pending = bytearray()
        self._complete = _Bytes()
        self._reader: pa.RecordBatchStreamReader | None = None

    def feed(self, data: bytes) -> Iterator[Chunk]:
        """Add received bytes, and yield the chunks that are complete now."""
        self._pending += data
        while (message := _next_message(self._pending)) is not None:
            kind, size = message
            self._complete.add(bytes(self._pending[:size]))
            del self._pending[:size]
            if kind == _SCHEMA:
                self._reader = pa.ipc.open_stream(self._complete)
            elif kind == _RECORD_BATCH and self._reader is not None:
                yield _chunk(*self._reader.read_next_batch_with_custom_metadata())


_SCHEMA = 1
_RECORD_BATCH = 3
_PREFIX = struct.Struct("<Ii")
# The numbers of these fields in a message's table.
_KIND = 1
_BODY_LENGTH = 3


class _Bytes(io.RawIOBase):
    """A readable file of complete messages; ``add`` appends a message."""

    def __init__(self) -> None:
        self._data = b""

    def add(self, data: bytes) -> None:
        self._data += data

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        size = len(self._data) if size < 0 else size
        data, self._data = self._data[:size], self._data[size:]
        return data


def _next_message(data: bytearray) -> tuple[int, int] | None:
    """Return (kind, size in bytes) of the first message in ``data``; None: the message is
    incomplete.
    """
    if len(data) < _PREFIX.size:
        return None
    _, length = _PREFIX.unpack_from(data)
    begin = _PREFIX.size
    if length == 0 or len(data) < begin + length:
        return None
    kind, body = _kind_and_body(bytes(data[begin : begin + length]))
    size = begin + length + body
    return (kind, size) if len(data) >= size else None


def _kind_and_body(message: bytes) -> tuple[int, int]:
    """Return (kind of the message, length of the message's body in bytes)."""
    table = root_table(message)

    def value(number: int, form: str) -> int:
        at = field_offset(message, table, number)
        number_read: int = 0 if at is None else struct.unpack_from(form, message, at)[0]
        return number_read

    return value(_KIND, "<B"), value(_BODY_LENGTH, "<q")
