"""The Arrow bodies of the streams API, read so that a small body cannot fill the memory."""

import io
import struct
from collections.abc import AsyncIterator

import pyarrow as pa

from mistbow.errors import InvalidRequestError, TooLargeError
from mistbow.streams.flatbuffers import child, field, root
from mistbow.streams.wire import MEDIA_TYPE, Chunk, ChunkEncoder

_MOST_ROWS = 1_000_000
# The places of these fields in the tables of Arrow's Message, RecordBatch and DictionaryBatch.
_HEADER = 2
_COMPRESSION = 3
_DICTIONARY = 1


async def encoded(
    schema: pa.Schema, first: Chunk, rest: AsyncIterator[Chunk]
) -> AsyncIterator[bytes]:
    """Yield the Arrow IPC stream of chunks, as they come."""
    encoder = ChunkEncoder(schema)
    yield encoder.encode(first)
    async for chunk in rest:
        yield encoder.encode(chunk)
    yield encoder.close()


def read_table(body: bytes) -> pa.Table:
    """Return the rows of an Arrow IPC stream; raises ``InvalidRequestError`` if it is none.

    Compressed ones are refused: what they unpack to has no bound.
    """
    try:
        if _is_compressed(body):
            raise InvalidRequestError(
                "the body's buffers are compressed", hint="Write the stream without compression."
            )
        with pa.ipc.open_stream(io.BytesIO(body)) as reader:
            table = reader.read_all()
    except (pa.ArrowException, OSError, ValueError, struct.error) as error:
        raise InvalidRequestError(
            f"the body is no Arrow IPC stream: {error}", hint=f"Its type is {MEDIA_TYPE}."
        ) from error
    if table.num_rows > _MOST_ROWS:  # those of some types take no bytes
        raise TooLargeError(f"the body has more than {_MOST_ROWS} rows", hint="Send fewer at once.")
    return table


def _is_compressed(body: bytes) -> bool:
    for message in pa.ipc.MessageReader.open_stream(pa.py_buffer(body)):
        metadata = message.metadata.to_pybytes()
        batch = child(metadata, root(metadata), _HEADER)
        if message.type == "dictionary":
            batch = child(metadata, batch, _DICTIONARY)
        elif message.type != "record batch":
            continue
        if field(metadata, batch, _COMPRESSION) is not None:
            return True
    return False
