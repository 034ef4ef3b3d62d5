"""A run: the rows of many adjacent segments, stored in a few blocks.

A run of points is split into blocks by the hash of the series. The points of a block are sorted by
series and time, and compressed: a read of an hour of one series decodes one small block of each
run. Each row retains its position, which identifies its segment, so positions, frontiers and
lateness do not change.

The layout is a log-structured merge tree (O'Neil et al., 1996) whose levels consist of runs.
"""

import io
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Self
from zlib import crc32

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from mistbow.errors import MistbowError
from mistbow.streams.schemas import POINTS
from storage_agent.streams.columns import as_list, without_unused_words
from storage_agent.streams.decimals import as_floats, as_integers
from storage_agent.streams.segments import AppendResult, empty_batch

POSITION = "number"
MAX_BLOCKS = 64

_ROWS_PER_BLOCK = 2**14
_KEYS = b"keys"
_IPC = pa.ipc.IpcWriteOptions(compression="zstd", use_threads=False)
_DELTA = "DELTA_BINARY_PACKED"
_DIGITS = b"digits"
_NON_FINITE = "non_finite"
"""The name of the column with the bits of NaN and infinities.

The column exists only beside values that are encoded as decimals; for finite values it is null.
"""

_VALUE = POINTS.get_field_index("value")
_POSITION = pa.field(POSITION, pa.int64(), nullable=False)
_BLOCK = POINTS.append(_POSITION)

Int64s = npt.NDArray[np.int64]
Float64s = npt.NDArray[np.float64]


_RUN_FIELDS = {
    "segments": "commits",
    "last_tombstone": "purged",
    "future_min_ts": "ahead_min_ts",
    "future_max_ts": "ahead_max_ts",
}
"""Name of a field of ``Run`` -> name of the field in the stored manifest."""


class Run(msgspec.Struct, frozen=True, kw_only=True, rename=_RUN_FIELDS):
    """A run's entry in the manifest. Times are milliseconds.

    ``count``: the number of positions in the run. ``late``: the number of late rows. ``oldest``,
    ``created``: the times at which the first and the last segment of the run were created.
    ``epoch``: the epoch of the last segment. ``released``: future points up to this time are rows
    of the stream. ``last_tombstone``: tombstones with ids up to this id were applied to the run.
    """

    id: str
    level: int
    first: int
    count: int
    rows: int
    late: int
    min_ts: int
    max_ts: int
    frontier: int
    oldest: int
    created: int
    future_min_ts: int
    future_max_ts: int
    blocks: int
    segments: int
    bytes: int
    epoch: int
    released: int
    last_tombstone: int

    @property
    def next(self) -> int:
        """The position after the last segment of the run."""
        return self.first + self.count


@dataclass(frozen=True, slots=True)
class SegmentTable:
    """The fields of the segment headers of an extent, as columns, in the order of positions.

    ``next``: the position after each segment. ``rows``: the number of rows in each segment.
    ``top``: for each segment, the greatest ``ts`` of its rows.
    """

    first: Int64s
    next: Int64s
    rows: Int64s
    frontier: Int64s
    frontier_before: Int64s
    created: Int64s
    top: Int64s

    def __len__(self) -> int:
        return len(self.first)

    def find(self, position: int) -> int:
        """Return the number of the segment that contains a position.

        For a position after the last segment, return the number of segments.
        """
        return int(np.searchsorted(self.next, position, side="right"))

    def find_all(self, positions: Int64s) -> Int64s:
        """Return, for each position, the number of the segment that contains the position."""
        return np.searchsorted(self.next, positions, side="right")

    @classmethod
    def concat(cls, tables: Sequence[Self]) -> Self:
        """Return one table with the segments of the given tables of adjacent extents."""
        columns = ([getattr(table, name) for table in tables] for name in _COLUMNS)
        return cls(*map(np.concatenate, columns))


_COLUMNS = tuple(SegmentTable.__slots__)

_STORED_COLUMNS = tuple("horizon" if name == "frontier_before" else name for name in _COLUMNS)


def encode_segment_table(segments: SegmentTable, keys: dict[str, AppendResult]) -> bytes:
    """Encode a segment table, and the segments' recent idempotency keys, as Parquet."""
    columns = [pa.array(getattr(segments, name), pa.int64()) for name in _COLUMNS]
    table = pa.table(columns, _STORED_COLUMNS, metadata={_KEYS: msgspec.json.encode(keys)})
    return _parquet(table, dict.fromkeys(_STORED_COLUMNS, _DELTA), [])


def decode_segment_table(data: bytes) -> tuple[SegmentTable, dict[str, AppendResult]]:
    """Return the segment table and the idempotency keys that ``encode_segment_table`` encoded.

    The keys are returned as key -> result of the append.
    """
    table = _read(data)
    keys = msgspec.json.decode(table.schema.metadata[_KEYS], type=dict[str, AppendResult])
    return SegmentTable(*(table[name].to_numpy() for name in _STORED_COLUMNS)), keys


def is_sorted(schema: pa.Schema) -> bool:
    """Return whether the runs of a stream with this schema are sorted by series.

    Runs of points are sorted by series; other runs are sorted by position.
    """
    return bool(schema.equals(POINTS))


def block_count(rows: int, schema: pa.Schema) -> int:
    """Return the number of blocks of a run with ``rows`` rows: a power of two."""
    if not is_sorted(schema):
        return 1
    return int(min(MAX_BLOCKS, 1 << max(0, -(-rows // _ROWS_PER_BLOCK) - 1).bit_length()))


@lru_cache(maxsize=100_000)
def hash_series(metric: str, entity: str) -> int:
    """Return the hash of a series, which determines the block of the series in a run.

    In a run of ``n`` blocks, the number of the block is the hash modulo ``n``.

    >>> 0 <= hash_series("cpu", "a") < MAX_BLOCKS
    True
    """
    return crc32(f"{metric}\0{entity}".encode("utf-8", "surrogatepass")) % MAX_BLOCKS


def append_positions(rows: pa.RecordBatch, positions: Int64s) -> pa.Table:
    """Return the points with their positions appended as the last column."""
    return pa.Table.from_batches([rows]).append_column(_POSITION, pa.array(positions))


def select_block(rows: pa.Table, block: int, blocks: int) -> pa.Table:
    """Return the points whose series belong to block ``block`` of a run with ``blocks`` blocks."""
    return rows.filter(pa.array(_hashes(rows) % blocks == block))


def split_into_blocks(rows: pa.Table, blocks: int) -> list[pa.Table]:
    """Split points into ``blocks`` blocks by the hash of their series."""
    if blocks == 1:
        return [rows]
    block = _hashes(rows) % blocks
    order = np.argsort(block, kind="stable")
    bounds = np.searchsorted(block[order], np.arange(blocks + 1))
    ordered = rows.take(pa.array(order))
    return [ordered.slice(start, end - start) for start, end in pairwise(bounds.tolist())]


def _hashes(rows: pa.Table) -> Int64s:
    metric, entity = (rows[name].combine_chunks() for name in ("metric", "entity"))
    # Encoding the pairs by a dictionary is faster than sorting them.
    width = len(entity.dictionary)
    pairs = pa.array(metric.indices.to_numpy().astype(np.int64) * width + entity.indices.to_numpy())
    found = pairs.dictionary_encode()
    metrics, entities = as_list(metric.dictionary), as_list(entity.dictionary)
    each = [
        hash_series(metrics[pair // width], entities[pair % width])
        for pair in found.dictionary.to_pylist()
    ]
    hashes: Int64s = np.array(each, np.int64)[found.indices.to_numpy()]
    return hashes


def encode_points(rows: pa.Table) -> bytes:
    """Return the points of a block and their positions, sorted by series and time, as Parquet."""
    rows = rows.unify_dictionaries().combine_chunks()
    metric, entity = (rows[name].combine_chunks() for name in ("metric", "entity"))
    order = np.lexsort(
        (
            rows[POSITION].to_numpy(),
            rows["ts"].to_numpy(),
            entity.indices.to_numpy(),
            metric.indices.to_numpy(),
        )
    )
    rows = rows.take(pa.array(order)).combine_chunks()
    # A block is a part of a run, whose dictionaries also have the words of all other blocks.
    batches = [without_unused_words(each) for each in rows.to_batches()]
    rows = pa.Table.from_batches(batches, rows.schema)
    encodings = {"ts": _DELTA, POSITION: _DELTA, "value": "BYTE_STREAM_SPLIT"}
    values = rows["value"].to_numpy()
    finite = np.isfinite(values)
    if (decimals := as_integers(_fill(values, finite))) is not None:
        integers, digits = decimals
        if not finite.all():
            bits = pa.array(values.view(np.int64), pa.int64(), mask=finite)
            rows = rows.append_column(_NON_FINITE, bits)
        rows = rows.set_column(_VALUE, "value", pa.array(integers, pa.int64()))
        rows = rows.replace_schema_metadata({_DIGITS: str(digits)})
        encodings["value"] = _DELTA
    return _parquet(rows, encodings, ["metric", "entity", "attributes"])


def _fill(values: Float64s, finite: npt.NDArray[np.bool_]) -> Float64s:
    """Return ``values`` with each NaN or infinity replaced by the finite value before.

    Repeated values compress best. Without a finite value before, the replacement is 0. ``finite``:
    a mask that is True for finite values.
    """
    if finite.all():
        return values
    before = np.maximum.accumulate(np.where(finite, np.arange(len(values)), 0))
    return np.where(finite[before], values[before], 0.0)


def decode_points(data: bytes) -> pa.Table:
    """Return the points of a block, with their positions, from Parquet.

    Raises ``MistbowError`` if the block is damaged.
    """
    try:
        rows = _read(data)
    except (pa.ArrowInvalid, OSError) as error:
        raise MistbowError("a stored block cannot be decoded", details=str(error)) from error
    digits = (rows.schema.metadata or {}).get(_DIGITS)
    if digits is not None:
        values = as_floats(rows["value"].to_numpy(), int(digits))
        if _NON_FINITE in rows.column_names:
            bits = rows[_NON_FINITE].combine_chunks()
            values.view(np.int64)[bits.is_valid()] = bits.drop_null()
            rows = rows.drop_columns([_NON_FINITE])
        rows = rows.set_column(_VALUE, POINTS.field("value"), pa.array(values))
    return rows.cast(_BLOCK)


def append_position_deltas(rows: pa.RecordBatch, positions: Int64s) -> pa.RecordBatch:
    """Return the rows, of any schema, with a last column that encodes their positions.

    The column contains the difference between each position and the position before. Most
    differences are 1, so the column compresses to almost nothing.
    """
    deltas = pa.array(np.diff(positions, prepend=np.int64(0)))
    fields = [*rows.schema, _POSITION]
    return pa.RecordBatch.from_arrays([*rows.columns, deltas], schema=pa.schema(fields))


def split_position_deltas(rows: pa.RecordBatch) -> tuple[pa.RecordBatch, Int64s]:
    """Return the rows and the positions that ``append_position_deltas`` combined."""
    names = range(rows.num_columns - 1)
    return rows.select(list(names)), np.cumsum(rows.column(rows.num_columns - 1).to_numpy())


def encode_rows(batches: Sequence[pa.RecordBatch], schema: pa.Schema) -> bytes:
    """Encode rows of any schema, in their order, as a compressed Arrow IPC stream."""
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, schema, options=_IPC) as writer:
        for batch in batches:
            writer.write_batch(batch)
    return sink.getvalue()


def decode_rows(data: bytes) -> pa.RecordBatch:
    """Decode rows as one batch; raises ``MistbowError`` if the rows are damaged."""
    try:
        with pa.ipc.open_stream(data) as reader:
            batches = list(reader)
            schema = reader.schema
    except pa.ArrowInvalid as error:
        raise MistbowError("a stored block cannot be decoded", details=str(error)) from error
    if not batches:
        return empty_batch(schema)
    return pa.concat_batches(batches) if len(batches) > 1 else batches[0]


def merge_blocks(blocks: Sequence[pa.Table]) -> tuple[pa.RecordBatch, Int64s]:
    """Return the points of several blocks in the order of positions, and their positions."""
    table = pa.concat_tables(blocks).unify_dictionaries().combine_chunks()
    positions = table[POSITION].to_numpy()
    order = np.argsort(positions, kind="stable")
    rows = table.select(POINTS.names).take(pa.array(order)).combine_chunks()
    batches = rows.to_batches()
    return (batches[0] if batches else empty_batch(POINTS)), positions[order]


def _read(data: bytes) -> pa.Table:
    # Not by read_table, which makes a dataset first: that takes as long again.
    return pq.ParquetFile(pa.BufferReader(data)).read(use_threads=False)


def _parquet(table: pa.Table, encodings: dict[str, str], dictionary: list[str]) -> bytes:
    sink = io.BytesIO()
    pq.write_table(
        table,
        sink,
        compression="zstd",
        use_dictionary=dictionary,
        column_encoding=encodings,
        write_statistics=False,
        row_group_size=2**20,
    )
    return sink.getvalue()
