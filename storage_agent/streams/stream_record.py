"""The description of a stream in Ignite's cache ``metadata``."""

from typing import Any

import msgspec
import pyarrow as pa

STREAM_PREFIX = "stream/"
"""The prefix of the keys of descriptions; the name of the stream is the rest of the key."""


class StreamRecord(msgspec.Struct, frozen=True):
    """The description of a stream that is stored in Ignite's cache ``metadata``.

    ``schema``: the stream's schema, as an Arrow IPC message. ``incarnation``: the number of earlier
    streams with the same name. The keys of an earlier stream are never reused, because a write to
    these keys may still be in progress. ``deleted``: whether the stream is deleted. ``dropped``:
    whether the rows of the deleted stream have been removed.
    """

    schema: bytes
    incarnation: int = 0
    deleted: bool = False
    dropped: bool = False


def new_record(schema: pa.Schema) -> StreamRecord:
    """Return the description of a stream with a schema."""
    return StreamRecord(schema.remove_metadata().serialize().to_pybytes())


def schema_of(record: StreamRecord) -> pa.Schema:
    """Return the schema of the described stream."""
    return pa.ipc.read_schema(pa.py_buffer(record.schema))


def log_key(name: str, incarnation: int) -> str:
    """Return the prefix of the keys of a stream's log in Ignite.

    >>> log_key("raw", 0), log_key("raw", 2)
    ('raw', 'raw@2')
    """
    return f"{name}@{incarnation}" if incarnation else name


def decode_record(stored: Any) -> StreamRecord:
    """Return the description that ``encode_record`` encoded."""
    return msgspec.json.decode(stored, type=StreamRecord)


def encode_record(record: StreamRecord) -> str:
    """Encode a description as a text; equal descriptions give equal texts."""
    return msgspec.json.encode(record).decode()
