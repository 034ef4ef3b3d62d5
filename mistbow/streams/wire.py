"""The wire format of streams: an Arrow IPC stream with a ``Position`` in each batch's metadata.

A batch without rows is a heartbeat, which only advances the position.
"""

import io
import struct
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar

import pyarrow as pa

from mistbow.errors import UnavailableError
from mistbow.streams.arrow_messages import (
    DICTIONARY,
    RECORD_BATCH,
    SCHEMA,
    is_compressed,
    read_head,
)

MEDIA_TYPE = "application/vnd.apache.arrow.stream"

MAX_INT64 = 2**63 - 1
"""The greatest position, and the greatest time (ms)."""

_Rows = TypeVar("_Rows", pa.RecordBatch, pa.Table)


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


def decode(data: bytes) -> list[Chunk]:
    """Return the chunks of a complete stream.

    Raises ``UnavailableError`` if the bytes are no stream of chunks, or not all of one.
    """
    decoder = ChunkDecoder()
    chunks = list(decoder.feed(data))
    if not decoder.has_ended:
        raise UnavailableError(
            "the answer was interrupted: the end of the stream is missing",
            hint="Send the request again.",
        )
    return chunks


def read_batches(data: bytes) -> list[tuple[pa.RecordBatch, Mapping[str, bytes]]]:
    """Return the batches of an Arrow IPC stream, each with its metadata.

    Raises ``UnavailableError`` if the stream is compressed or malformed.
    """
    found: list[tuple[pa.RecordBatch, Mapping[str, bytes]]] = []
    try:
        with _open(data) as reader, suppress(StopIteration):
            while True:
                rows, metadata = reader.read_next_batch_with_custom_metadata()
                found.append((checked(rows), metadata or {}))
    except _MALFORMED as error:
        raise _malformed(error) from error
    return found


def read_table(data: bytes) -> pa.Table:
    """Return the rows of an Arrow IPC stream; raises ``UnavailableError`` as ``read_batches``."""
    try:
        with _open(data) as reader:
            return checked(reader.read_all())
    except _MALFORMED as error:
        raise _malformed(error) from error


def read_schema(data: bytes) -> pa.Schema:
    """Return the schema of an Arrow IPC stream; raises ``UnavailableError`` as ``read_batches``."""
    try:
        with _open(data) as reader:
            tuple(reader.schema.names)  # raises ValueError for a name that is not UTF-8
            return reader.schema
    except _MALFORMED as error:
        raise _malformed(error) from error


def _open(data: bytes) -> pa.RecordBatchStreamReader:
    if is_compressed(data):
        raise ValueError("it is compressed")
    return pa.ipc.open_stream(data)


def _malformed(error: Exception) -> UnavailableError:
    return UnavailableError(
        f"the answer is not a stream of rows: {error}",
        hint="The agent that sent it may be of another version, or is not Mistbow's.",
    )


def _chunk(rows: pa.RecordBatch, metadata: Mapping[str, bytes]) -> Chunk:
    position = Position(_int64(metadata["next"]), _int64(metadata["frontier"]))
    return Chunk(checked(rows), position, metadata["note"].decode() if "note" in metadata else "")


def _int64(digits: bytes) -> int:
    """Return a position or a time; streams store both as int64."""
    number = int(digits)
    if not 0 <= number <= MAX_INT64:
        raise ValueError("a position or a frontier is below 0, or is above 2^63 - 1")
    return number


def encode_rows(rows: pa.RecordBatch | pa.Table) -> bytes:
    """Return rows as a complete Arrow IPC stream: the body of an append."""
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write(rows)
    return sink.getvalue()


class ChunkDecoder:
    """Decodes chunks from an Arrow IPC stream that arrives in parts of any size; never blocks.

    The stream may come from another site, whose machine may have been stolen. So a message that
    would use up the memory, or that refers to bytes outside of itself, is an error. ``max_bytes``:
    the maximum size of a message; None: the largest size that earlier versions send. ``has_ended``:
    whether the end of the stream was received.
    """

    def __init__(self, max_bytes: int | None = None) -> None:
        self._max_bytes = _MAX_MESSAGE_BYTES if max_bytes is None else max_bytes
        self._pending = bytearray()
        self._needed_bytes = 0
        """The number of bytes that the first message needs, as far as it is known."""

        self._complete = _Bytes()
        self._reader: pa.RecordBatchStreamReader | None = None
        self.has_ended = False

    @property
    def pending(self) -> int:
        """The number of bytes of a message that is not complete yet."""
        return len(self._pending)

    def may_complete(self, data: bytes) -> bool:
        """Return whether a message may be complete with ``data``."""
        return len(self._pending) + len(data) >= self._needed_bytes

    def feed(self, data: bytes) -> Iterator[Chunk]:
        """Add received bytes, and yield the chunks that are complete now.

        Raises ``UnavailableError`` if the bytes are no stream of chunks.
        """
        try:
            yield from self._feed(data)
        except _MALFORMED as error:
            raise _malformed(error) from error

    def _feed(self, data: bytes) -> Iterator[Chunk]:
        if self.has_ended:
            return
        self._pending += data
        while (message := self._next_message()) is not None:
            kind, size = message
            if (kind == SCHEMA) != (self._reader is None):
                raise ValueError("the schema is missing, or is not the first message")
            # Dictionaries wait here for their batch.
            self._check_size(self._complete.add(bytes(self._pending[:size])))
            del self._pending[:size]
            if self._reader is None:
                self._reader = pa.ipc.open_stream(self._complete)
            elif kind == RECORD_BATCH:
                yield _chunk(*self._next_batch(self._reader))

    @staticmethod
    def _next_batch(reader: pa.RecordBatchStreamReader) -> tuple[pa.RecordBatch, Any]:
        try:
            batch: tuple[pa.RecordBatch, Any] = reader.read_next_batch_with_custom_metadata()
        except StopIteration:
            raise ValueError("a batch is missing") from None
        return batch

    def _next_message(self) -> tuple[int, int] | None:
        """Return (kind, size in bytes) of the first message; None: it is not complete yet."""
        self._needed_bytes = _PREFIX.size
        if len(self._pending) < self._needed_bytes:
            return None
        _, length = _PREFIX.unpack_from(self._pending)
        if length == 0:
            self.has_ended = True
            return None
        begin = _PREFIX.size
        self._check_size(length)
        self._needed_bytes = begin + length
        if len(self._pending) < self._needed_bytes:
            return None
        head = read_head(bytes(self._pending[begin : begin + length]))
        self._check_size(head.body_bytes)
        if head.is_compressed or not 0 <= head.rows <= _MAX_ROWS:
            raise ValueError("a batch is compressed, or has too many rows")
        if head.kind not in (SCHEMA, DICTIONARY, RECORD_BATCH):
            raise ValueError("a message is of an unknown kind")
        self._needed_bytes = begin + length + head.body_bytes
        return (head.kind, self._needed_bytes) if len(self._pending) >= self._needed_bytes else None

    def _check_size(self, count: int) -> None:
        if not 0 <= count <= self._max_bytes:
            raise ValueError(f"a message has {count} bytes, and at most {self._max_bytes} are read")


def checked(rows: _Rows) -> _Rows:
    """Return the rows of another machine; raises ``ValueError`` if they are malformed.

    Otherwise a text could lie outside of a batch, and reading it would end the process.
    """
    rows.validate(full=True)
    tuple(rows.schema.names)  # raises ValueError for a name that is not UTF-8
    return rows


_MALFORMED = (pa.ArrowException, struct.error, KeyError, TypeError, ValueError, OSError)
"""The errors of a malformed stream."""

_PREFIX = struct.Struct("<Ii")
_MAX_MESSAGE_BYTES = 256 * 2**20
"""The maximum size of a message: earlier versions join up to 32 segments of 7 MiB in a chunk."""

_MAX_ROWS = 4_000_000
"""The maximum number of rows of a chunk: rows of some types need no bytes."""


class _Bytes(io.RawIOBase):
    """A readable file of complete messages.

    ``add`` appends a message, and returns the number of bytes that were not read yet.
    """

    def __init__(self) -> None:
        self._data = b""

    def add(self, data: bytes) -> int:
        self._data += data
        return len(self._data)

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        size = len(self._data) if size < 0 else size
        data, self._data = self._data[:size], self._data[size:]
        return data
