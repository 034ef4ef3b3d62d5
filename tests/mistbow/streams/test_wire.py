"""The wire format of streams."""

import io
import struct
from contextlib import suppress

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mistbow.errors import UnavailableError
from mistbow.streams.schemas import POINTS
from mistbow.streams.wire import (
    Chunk,
    ChunkDecoder,
    ChunkEncoder,
    Position,
    decode,
    read_batches,
    read_schema,
    read_table,
)


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
    assert decode(encoded()) == CHUNKS


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


def forged(data: bytes, old: bytes, new: bytes) -> bytes:
    """Return a stream in which the only occurrence of ``old`` is replaced by other bytes."""
    assert data.count(old) == 1
    return data.replace(old, new)


def with_texts(*texts: str) -> bytes:
    rows = pa.RecordBatch.from_pydict({"a": pa.array(texts, pa.string())})
    encoder = ChunkEncoder(rows.schema)
    return encoder.encode(Chunk(rows, Position(1, 1)))


def compressed() -> bytes:
    sink = io.BytesIO()
    rows = pa.RecordBatch.from_pydict({"a": [0] * 100_000})
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    with pa.ipc.new_stream(sink, rows.schema, options=options) as writer:
        writer.write_batch(rows, custom_metadata={"next": "1", "frontier": "1"})
    return sink.getvalue()


def without_position() -> bytes:
    sink = io.BytesIO()
    rows = pa.RecordBatch.from_pydict({"a": [0]})
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write(rows)
    return sink.getvalue()


def many_rows() -> bytes:
    rows = pa.RecordBatch.from_arrays([pa.nulls(10_000_000)], ["a"])
    return ChunkEncoder(rows.schema).encode(Chunk(rows, Position(1, 1)))


# Offsets of texts that lie outside of the batch: reading them would end the process.
OUTSIDE = forged(
    with_texts("aaaa", "bbbb"), struct.pack("<3i", 0, 4, 8), struct.pack("<3i", 0, 4, 2**30)
)
MALFORMED = {
    "no Arrow": b"GET / HTTP/1.1\r\n\r\n" * 9,
    "a huge head": struct.pack("<Ii", 0xFFFFFFFF, 2**31 - 1),
    "a negative head": struct.pack("<Ii", 0xFFFFFFFF, -5),
    "an empty head": struct.pack("<Ii", 0xFFFFFFFF, 8) + bytes(8),
    "compressed": compressed(),
    "without a position": without_position(),
    "many rows of no bytes": many_rows(),
    "texts outside of the batch": OUTSIDE,
}


@pytest.mark.parametrize("data", MALFORMED.values(), ids=MALFORMED)
def test_decoder_rejects_a_malformed_stream(data: bytes) -> None:
    with pytest.raises(UnavailableError, match="not a stream of rows"):
        list(ChunkDecoder().feed(data))


def test_decoder_ignores_what_follows_the_end() -> None:
    decoder = ChunkDecoder()
    assert list(decoder.feed(encoded() + b"x" * 1000)) == CHUNKS
    assert list(decoder.feed(b"x" * 1000)) == []


@pytest.mark.parametrize(
    "data", [compressed(), OUTSIDE, b"no Arrow"], ids=["bomb", "outside", "no"]
)
def test_whole_answers_are_checked_too(data: bytes) -> None:
    for read in (read_batches, read_table):
        with pytest.raises(UnavailableError, match="not a stream of rows"):
            read(data)


def test_read_schema_returns_the_schema_of_a_stream() -> None:
    assert read_schema(encoded()) == POINTS


@pytest.mark.parametrize(
    "data", [b"", b"no Arrow", struct.pack("<Ii", 0xFFFFFFFF, 16) + b"\x01" * 16, compressed()]
)
def test_read_schema_rejects_a_malformed_stream(data: bytes) -> None:
    with pytest.raises(UnavailableError, match="not a stream of rows"):
        read_schema(data)


@given(st.data())
def test_decoder_yields_chunks_or_an_error_of_any_changed_bytes(data: st.DataObject) -> None:
    changed = bytearray(encoded())
    for _ in range(data.draw(st.integers(1, 4))):
        changed[data.draw(st.integers(0, len(changed) - 1))] = data.draw(st.integers(0, 255))
    with suppress(UnavailableError):
        for chunk in ChunkDecoder().feed(bytes(changed)):
            chunk.rows.to_pylist()


def test_decoder_rejects_a_message_beyond_the_limit_before_it_is_complete() -> None:
    encoder = ChunkEncoder(POINTS)
    large = encoder.encode(chunk(0, 10_000))
    with pytest.raises(UnavailableError, match="bytes, and at most 65536 are read"):
        list(ChunkDecoder(2**16).feed(large[:4000]))
    small = ChunkEncoder(POINTS).encode(chunk(0, 100))
    assert list(ChunkDecoder(2**16).feed(small)) == [chunk(0, 100)]


@pytest.mark.parametrize("number", [-1, 2**63, 10**30])
@pytest.mark.parametrize("field", ["next", "frontier"])
def test_decode_rejects_impossible_positions(field: str, number: int) -> None:
    position = Position(**{"next": 1, "frontier": 1, field: number})
    encoder = ChunkEncoder(POINTS)
    data = encoder.encode(Chunk(chunk(0, 1).rows, position)) + encoder.close()
    with pytest.raises(UnavailableError, match=r"below 0, or is above 2\^63 - 1"):
        decode(data)


def test_decode_accepts_the_greatest_position() -> None:
    encoder = ChunkEncoder(POINTS)
    greatest = Position(2**63 - 1, 2**63 - 1)
    [found] = decode(encoder.encode(Chunk(chunk(0, 1).rows, greatest)) + encoder.close())
    assert found.position == greatest
