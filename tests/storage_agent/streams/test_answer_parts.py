"""The answer to a subscription is sent in small parts."""

from collections.abc import AsyncIterator

import pyarrow as pa

from mistbow.streams.wire import Chunk, Position, decode
from storage_agent.http.streams import encode_chunks


async def test_large_chunk_is_sent_in_small_parts() -> None:
    rows = pa.record_batch({"n": pa.array(range(100_000), pa.int64())})
    chunks = [Chunk(rows, Position(each, 0)) for each in (1, 2)]

    async def rest() -> AsyncIterator[Chunk]:
        yield chunks[1]

    parts = [part async for part in encode_chunks(rows.schema, chunks[0], rest())]
    assert max(len(part) for part in parts) <= 256 * 2**10
    assert decode(b"".join(parts)) == chunks
