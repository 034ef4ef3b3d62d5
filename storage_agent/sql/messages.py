"""The messages between the agent and a query process; some messages have a payload of bytes.

The agent sends a query. Then the process sends one request at a time, and the agent replies to each
request, until the process sends the answer.
"""

import io
import struct
from typing import Any, Literal

import msgspec
import pyarrow as pa

Format = Literal["json", "arrow", "lines"]


class SqlQuery(msgspec.Struct, frozen=True, tag=True):
    """To the query process: the query, with limits on the time and the size of the answer.

    ``missing``: node whose data the answer lacks -> reason.
    """

    text: str
    parameters: list[Any]
    format: Format
    seconds: float
    max_rows: int
    max_bytes: int
    missing: dict[str, str] = {}


class TableDescription(msgspec.Struct, frozen=True, tag=True):
    """To the query process: the requested table exists; the payload is the table's schema.

    ``column_values``: column -> all values of the column, sorted; columns whose values are unknown
    are omitted.
    """

    column_values: dict[str, list[str]]


class UnknownTable(msgspec.Struct, frozen=True, tag=True):
    """To the query process: the requested table does not exist."""


class BatchFollows(msgspec.Struct, frozen=True, tag=True):
    """To the query process: the payload is the next batch of rows."""


class EndOfScan(msgspec.Struct, frozen=True, tag=True):
    """To the query process: the scan has no more rows."""


class DescribeTable(msgspec.Struct, frozen=True, tag=True):
    """From the query process: request the description of a table."""

    table: str


class Scan(msgspec.Struct, frozen=True, tag=True):
    """From the query process: begin to read a table.

    ``number``: identifies the scan in later messages. ``min_ts``, ``max_ts``: the times to read
    (ms, inclusive; None if unbounded). ``column_values``: column -> the values to read; all values
    of other columns are read. The agent may also send rows with other times and values.
    """

    number: int
    table: str
    columns: list[str]
    min_ts: int | None = None
    max_ts: int | None = None
    column_values: dict[str, list[str]] = {}


class NextBatch(msgspec.Struct, frozen=True, tag=True):
    """From the query process: request the next batch of rows; ``scan``: the number of the scan."""

    scan: int


class ProcessReady(msgspec.Struct, frozen=True, tag=True):
    """From the query process: it has started."""


class AnswerFollows(msgspec.Struct, frozen=True, tag=True):
    """From the query process: the payload is the answer, in the query's format."""


class QueryFailed(msgspec.Struct, frozen=True, tag=True):
    """From the query process: the query failed; ``message``: the cause.

    ``line``, ``column``: the place of the error in the query, counted from 1; None if unknown.
    """

    reason: Literal["query", "rows", "bytes", "memory"]
    message: str = ""
    line: int | None = None
    column: int | None = None


ToProcess = SqlQuery | TableDescription | UnknownTable | BatchFollows | EndOfScan
FromProcess = ProcessReady | DescribeTable | Scan | NextBatch | AnswerFollows | QueryFailed

PREFIX = struct.Struct("<II")
"""The prefix of each message: the size of the message and the size of its payload, in bytes."""

_ENCODER = msgspec.msgpack.Encoder()


def encode(message: ToProcess | FromProcess, payload: bytes = b"") -> bytes:
    """Return the bytes of a message with its payload."""
    head = _ENCODER.encode(message)
    return PREFIX.pack(len(head), len(payload)) + head + payload


def encode_batch(rows: pa.RecordBatch) -> bytes:
    """Encode a batch as an Arrow IPC stream, which includes the schema and the dictionaries."""
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_batch(rows)
    return sink.getvalue()


def decode_batch(data: bytes) -> pa.RecordBatch:
    """Decode a batch that was encoded by ``encode_batch``."""
    with pa.ipc.open_stream(data) as reader:
        return reader.read_next_batch()
