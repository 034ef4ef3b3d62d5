"""The heads of Arrow IPC messages, which other machines may have forged."""

import struct
from dataclasses import dataclass

import pyarrow as pa

from mistbow.streams.flatbuffers import child_table, field_offset, root_table

SCHEMA = 1
DICTIONARY = 2
RECORD_BATCH = 3

# The numbers of these fields in the tables of Arrow's Message, RecordBatch, DictionaryBatch.
_KIND = 1
_HEADER = 2
_BODY_LENGTH = 3
_ROWS = 0
_COMPRESSION = 3
_BATCH_OF_DICTIONARY = 1


@dataclass(frozen=True, slots=True)
class MessageHead:
    """The head of a message: the kind, the bytes of the body, the rows, and the compression."""

    kind: int
    body_bytes: int
    rows: int
    is_compressed: bool


def read_head(metadata: bytes) -> MessageHead:
    """Return the head of a message; ``metadata``: its Flatbuffers table.

    Raises ``ValueError`` or ``struct.error`` if the table is malformed.
    """
    message = root_table(metadata)

    def number(table: int, field: int, form: str) -> int:
        at = field_offset(metadata, table, field)
        found: int = 0 if at is None else struct.unpack_from(form, metadata, at)[0]
        return found

    kind, body_bytes = number(message, _KIND, "<B"), number(message, _BODY_LENGTH, "<q")
    if kind not in (DICTIONARY, RECORD_BATCH):
        return MessageHead(kind, body_bytes, 0, is_compressed=False)
    batch = child_table(metadata, message, _HEADER)
    if kind == DICTIONARY:
        batch = child_table(metadata, batch, _BATCH_OF_DICTIONARY)
    compression = field_offset(metadata, batch, _COMPRESSION)
    rows = number(batch, _ROWS, "<q")
    return MessageHead(kind, body_bytes, rows, is_compressed=compression is not None)


def is_compressed(data: bytes) -> bool:
    """Return whether an Arrow IPC stream has a compressed message; raises errors of ``pyarrow``."""
    messages = pa.ipc.MessageReader.open_stream(pa.py_buffer(data))
    return any(read_head(each.metadata.to_pybytes()).is_compressed for each in messages)
