"""The bodies of stream requests: JSON, or Arrow IPC without compression."""

import io
import struct
from collections.abc import AsyncIterator, Iterator
from typing import Annotated, Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Meta

from mistbow.client.fields import MAX_RETAIN_MS, MAX_TIMESTAMP_MS, Count, Id
from mistbow.errors import InvalidRequestError, TooLargeError
from mistbow.streams.arrow_messages import is_compressed
from mistbow.streams.wire import MEDIA_TYPE, Chunk, ChunkEncoder
from mistbow.timestamps import Timestamps
from storage_agent.http.decode import invalid_field

_MAX_ROWS = 1_000_000
_PART_BYTES = 256 * 2**10
_MAX_LEASE_MS = 366 * 86_400_000

_SERVICE_STREAMS = frozenset(("raw", "metadata", "decisions", "deployments", "placements"))
_SERVICE_PREFIXES = (
    *("panes/", "results/", "states/", "decisions/", "deployments/", "placements/"),
    *("replicas/", "records/"),
)
"""The names, and the beginnings of names, of streams that services write."""


class AdvanceBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The body of a request that advances the frontier of a stream and sets attributes.

    ``epoch``: the epoch of the sender. ``frontier``: the new frontier; None: the frontier does not
    change. ``attributes``: name -> new value; the value null removes the attribute.
    """

    epoch: Count | None = None
    frontier: Count | None = None
    attributes: Annotated[dict[str, Any], Meta(max_length=1000)] = {}


class RetentionLeaseBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The body of a request for a retention lease on a stream.

    Rows of the stream are retained for ``keep_ms`` after their arrival. The lease expires after
    ``for_ms``. ``holder``: the name of the reader. ``metrics``: the metrics that the reader needs,
    if the rows are points; empty: all metrics.
    """

    holder: Id
    keep_ms: Annotated[int, Meta(ge=1, le=MAX_RETAIN_MS)]
    for_ms: Annotated[int, Meta(ge=1, le=_MAX_LEASE_MS)]
    metrics: Annotated[tuple[Id, ...], Meta(max_length=1000)] = ()


def check_attributes(attributes: dict[str, Any]) -> None:
    """Raise ``InvalidRequestError`` if attributes contain an integer beyond 64 bits.

    A stream cannot store such an integer.
    """
    waiting: list[Any] = [attributes]
    while waiting:
        item = waiting.pop()
        if isinstance(item, int) and not -(2**63) <= item < 2**63:
            raise invalid_field("attributes", "integers must fit in 64 bits")
        if isinstance(item, dict | list):
            waiting += item.values() if isinstance(item, dict) else item


def read_time(times: Timestamps, stream: str, time: int, path: str) -> int:
    """Return a time in a request about a stream, in milliseconds; ``path``: the field, for errors.

    Raises ``InvalidRequestError`` if the unit of the time is refused. Times of streams that
    services write are not refused, because they can be near 1970.
    """
    is_of_service = stream in _SERVICE_STREAMS or stream.startswith(_SERVICE_PREFIXES)
    if time <= MAX_TIMESTAMP_MS and is_of_service:
        return time
    return int(times.read(time, path))


def check_times(times: Timestamps, stream: str, rows: pa.RecordBatch) -> None:
    """Raise ``InvalidRequestError`` if the column ``ts`` of new rows is in a refused unit.

    Rows are not converted: with the setting ``auto`` they are stored as they are.
    """
    if times.unit == "ms" and "ts" in rows.schema.names and rows.num_rows:
        for bound in pc.min_max(rows["ts"]).as_py().values():
            if bound is not None:
                read_time(times, stream, bound, "ts")


async def encode_chunks(
    schema: pa.Schema, first: Chunk, rest: AsyncIterator[Chunk]
) -> AsyncIterator[bytes]:
    """Yield the parts of the Arrow IPC stream of chunks, as the chunks arrive.

    A chunk may have megabytes. Its parts are small, so that the server buffers little of an answer
    whose reader is slow.
    """
    encoder = ChunkEncoder(schema)
    for part in _parts(encoder.encode(first)):
        yield part
    async for chunk in rest:
        for part in _parts(encoder.encode(chunk)):
            yield part
    yield encoder.close()


def _parts(data: bytes) -> Iterator[bytes]:
    for start in range(0, len(data), _PART_BYTES):
        yield data[start : start + _PART_BYTES]


def decode_table(body: bytes) -> pa.Table:
    """Return the rows of an Arrow IPC stream.

    Raises ``InvalidRequestError`` if the stream is malformed, and ``TooLargeError`` if the stream
    has too many rows. Compressed streams are rejected, since a small body could exhaust the memory.
    """
    try:
        if is_compressed(body):
            raise InvalidRequestError(
                "the Arrow IPC stream in the body is compressed",
                hint="Send the body without compression.",
            )
        source = io.BytesIO(body)
        with pa.ipc.open_stream(source) as reader:
            table = reader.read_all()
            read = source.tell()
        if read < len(body):
            raise InvalidRequestError(
                f"the body has {len(body) - read} bytes after the end of the Arrow IPC stream",
                hint="Send one stream per request.",
            )
        tuple(table.schema.names)  # raises ValueError for a name that is not UTF-8
    except (pa.ArrowException, OSError, ValueError, struct.error) as error:
        raise InvalidRequestError(
            f"the body is not a valid Arrow IPC stream: {error}",
            hint=f"Send an Arrow IPC stream as {MEDIA_TYPE}.",
        ) from error
    # Rows of some types take no bytes, so the limit on bodies does not bound them.
    if table.num_rows > _MAX_ROWS:
        raise TooLargeError(
            f"the body has {table.num_rows} rows, and at most {_MAX_ROWS} are allowed",
            hint="Send fewer rows per request.",
        )
    return table
