"""What an agent and the process of a query say to each other: messages, some with Arrow bytes.

The process asks, the agent answers, one at a time.
"""

import io
import struct
from typing import Any, Literal

import msgspec
import pyarrow as pa

Format = Literal["json", "arrow"]


class Query(msgspec.Struct, frozen=True, tag=True):
    """To the process: what to compute; more rows or bytes than these are refused."""

    text: str
    parameters: list[Any]
    format: Format
    seconds: float
    most_rows: int
    most_bytes: int


class Known(msgspec.Struct, frozen=True, tag=True):
    """To the process: the table that it asked for; its schema follows.

    ``words``: of some columns all values that there are, sorted.
    """

    words: dict[str, list[str]]


class Unknown(msgspec.Struct, frozen=True, tag=True):
    """To the process: there is no such table."""


class Batch(msgspec.Struct, frozen=True, tag=True):
    """To the process: the next rows follow."""


class End(msgspec.Struct, frozen=True, tag=True):
    """To the process: there are no more rows."""


class Describe(msgspec.Struct, frozen=True, tag=True):
    """From the process: what is this table?"""

    table: str


class Scan(msgspec.Struct, frozen=True, tag=True):
    """From the process: begin to read a table. Other rows than these may come, these must.

    Times in milliseconds, both inclusive; ``words``: column → values, any of which will do.
    """

    number: int
    table: str
    columns: list[str]
    min_ts: int | None = None
    max_ts: int | None = None
    words: dict[str, list[str]] = {}


class Next(msgspec.Struct, frozen=True, tag=True):
    """From the process: the next rows of a scan, please."""

    scan: int


class Ready(msgspec.Struct, frozen=True, tag=True):
    """From the process: it has started."""


class Answer(msgspec.Struct, frozen=True, tag=True):
    """From the process: the answer follows, in the query's format."""


class Failed(msgspec.Struct, frozen=True, tag=True):
    """From the process: there is no answer, and why; line and column from 1 on."""

    reason: Literal["query", "rows", "bytes", "memory"]
    message: str = ""
    line: int | None = None
    column: int | None = None


ToProcess = Query | Known | Unknown | Batch | End
FromProcess = Ready | Describe | Scan | Next | Answer | Failed

PREFIX = struct.Struct("<II")
"""Before each message: its size, and that of the bytes that follow it."""

_ENCODER = msgspec.msgpack.Encoder()


def encode(message: ToProcess | FromProcess, payload: bytes = b"") -> bytes:
    """Return a message as it is sent."""
    head = _ENCODER.encode(message)
    return PREFIX.pack(len(head), len(payload)) + head + payload


def encode_batch(rows: pa.RecordBatch) -> bytes:
    """Return rows as Arrow bytes, with their schema: dictionaries differ from batch to batch."""
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_batch(rows)
    return sink.getvalue()


def decode_batch(data: bytes) -> pa.RecordBatch:
    """Read rows back."""
    with pa.ipc.open_stream(data) as reader:
        return reader.read_next_batch()
