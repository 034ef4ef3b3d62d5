"""The wire format of streams."""

import io

import pyarrow as pa
import pytest

from mistbow.streams.schemas import POINTS
from mistbow.streams.wire import Chunk, ChunkDecoder, ChunkEncoder, Position, decode


def chunk(first: int, count: int) -> Chunk:
    words = pa.array([f"w{first + i}" for i in range(count)], pa.string()).dictionary_encode()
    numbers = range(first, first + count)
    columns = [words, words, words, pa.array(numbers, pa.int64()), pa.array(numbers, pa.float64())]
    rows = pa.RecordBatch.from_arrays(columns, schema=POINTS)
    return Chunk(rows, Position(first + count, first))


CHUNKS = [chunk(0, 3), chunk(3, 0), chunk(3, 200), chunk(203, 1), chunk(204, 0)]


def encoded() -> bytes:
    encoder = ChunkEncoder(POINTS)
    return b"".join([*(encoder.encode(chunk) for chunk in CHUNKS), encoder.close()])


def test_decode_reads_a_stream() -> None:
    assert list(decode(io.BytesIO(encoded()))) == CHUNKS


@pytest.mark.parametrize("size", [1, 7, 64, 1000, 10**6])
def test_decoder_reads_a_stream_in_parts_of_any_size(size: int) -> None:
    data = encoded()
    decoder = ChunkDecoder()
    pieces = (data[i : i + size] for i in range(0, len(data), size))
    assert [chunk for piece in pieces for chunk in decoder.feed(piece)] == CHUNKS


def test_decoder_yields_a_chunk_at_its_last_byte() -> None:
    encoder = ChunkEncoder(POINTS)
    decoder = ChunkDecoder()
    for chunk in CHUNKS:
        data = encoder.encode(chunk)
        assert list(decoder.feed(data[:-1])) == []
        assert list(decoder.feed(data[-1:])) == [chunk]
