"""The form of a stream on the wire: an Arrow IPC stream whose batches say which rows they are.

Each batch's custom metadata holds a ``Position``; a batch without rows is a heartbeat, which
only moves the position.
"""

import io
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa

from mistbow.streams.flatbuffers import field, root

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
    """Rows of a stream in their order, and the position after them.

    ``note``: what a feed of a replica says beside the rows, as JSON.
    """

    rows: pa.RecordBatch
    position: Position
    note: str = ""


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
        if chunk.note:
            position["note"] = chunk.note
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
    """Turns the bytes of an Arrow IPC stream, in pieces as they come, into chunks.

    It never waits for bytes, so it can be used where nothing may block.
    """

    def __init__(self) -> None:
        self._pending = bytearray()
        self._complete = _Bytes()
        self._reader: pa.RecordBatchStreamReader | None = None

    def feed(self, data: bytes) -> Iterator[Chunk]:
        """Take the next bytes, and yield the chunks that they complete."""
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
# The places of these fields in a message's table.
_KIND = 1
_BODY_LENGTH = 3


class _Bytes(io.RawIOBase):
    """A file of whole messages, read up to where one more is added."""

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
    """Return the kind and the size of the message that ``data`` begins with, if it is whole."""
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
    """Read the header's kind and the body's length of a message, a Flatbuffers table."""
    table = root(message)

    def value(number: int, form: str) -> int:
        at = field(message, table, number)
        found: int = 0 if at is None else struct.unpack_from(form, message, at)[0]
        return found

    return value(_KIND, "<B"), value(_BODY_LENGTH, "<q")
