"""A run: the rows of many commits in one place, in a few blocks.

Where rows are points, a block holds some series, chosen by hash, sorted by series and time and
compressed: reading an hour of one series touches one small block of each run. Each row keeps its
number, and so the commit it came in: positions, frontiers and lateness stay what they were.
The layout is that of a log-structured merge tree (O'Neil et al., 1996) whose levels are runs.
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
from storage_agent.streams.columns import as_list
from storage_agent.streams.decimals import as_floats, as_integers
from storage_agent.streams.segments import Appended, no_rows

NUMBER = "number"
MOST_BLOCKS = 64

_ROWS_A_BLOCK = 2**14
_KEYS = b"keys"
_IPC = pa.ipc.IpcWriteOptions(compression="zstd", use_threads=False)
_DELTA = "DELTA_BINARY_PACKED"
_DIGITS = b"digits"
_VALUE = POINTS.get_field_index("value")
_NUMBER = pa.field(NUMBER, pa.int64(), nullable=False)
_BLOCK = POINTS.append(_NUMBER)

Int64s = npt.NDArray[np.int64]


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """What a stream's manifest says of a run. Times are milliseconds.

    ``oldest`` and ``created``: when its first and last commit were. ``purged``: the last deletion
    that was applied to it. ``epoch`` and ``released`` are those of its last commit.
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
    ahead_min_ts: int
    ahead_max_ts: int
    blocks: int
    commits: int
    bytes: int
    epoch: int
    released: int
    purged: int

    @property
    def next(self) -> int:
        """The number after its last."""
        return self.first + self.count


@dataclass(frozen=True, slots=True)
class Commits:
    """What each commit says of itself, in order; ``top`` is the greatest ``ts`` of its rows."""

    first: Int64s
    next: Int64s
    rows: Int64s
    frontier: Int64s
    horizon: Int64s
    created: Int64s
    top: Int64s

    def __len__(self) -> int:
        return len(self.first)

    def at(self, number: int) -> int:
        """Return the commit that holds a number; the length if none does."""
        return int(np.searchsorted(self.next, number, side="right"))

    def of(self, numbers: Int64s) -> Int64s:
        """Return the commit that holds each of some numbers."""
        return np.searchsorted(self.next, numbers, side="right")

    @classmethod
    def joined(cls, parts: Sequence[Self]) -> Self:
        """Return the commits of several runs as one."""
        return cls(*(np.concatenate([getattr(p, name) for p in parts]) for name in _COMMIT))


_COMMIT = tuple(Commits.__slots__)


def encode_commits(commits: Commits, keys: dict[str, Appended]) -> bytes:
    """Return commits, and the idempotency keys of the late ones among them, as Parquet."""
    columns = {name: pa.array(getattr(commits, name), pa.int64()) for name in _COMMIT}
    table = pa.table(columns).replace_schema_metadata({_KEYS: msgspec.json.encode(keys)})
    return _parquet(table, dict.fromkeys(_COMMIT, _DELTA), [])


def decode_commits(data: bytes) -> tuple[Commits, dict[str, Appended]]:
    """Read them back."""
    table = _read(data)
    keys = msgspec.json.decode(table.schema.metadata[_KEYS], type=dict[str, Appended])
    return Commits(*(table[name].to_numpy() for name in _COMMIT)), keys


def is_sorted(schema: pa.Schema) -> bool:
    """Tell whether a stream's runs are sorted by series; other rows keep the order they came in."""
    return bool(schema.equals(POINTS))


def blocks_for(rows: int, schema: pa.Schema) -> int:
    """Return in how many blocks a run of so many rows is kept: a power of two."""
    if not is_sorted(schema):
        return 1
    return int(min(MOST_BLOCKS, 1 << max(0, -(-rows // _ROWS_A_BLOCK) - 1).bit_length()))


@lru_cache(maxsize=100_000)
def hash_of(metric: str, entity: str) -> int:
    """Return which of ``MOST_BLOCKS`` parts a series is in; of fewer: the remainder.

    >>> 0 <= hash_of("cpu", "a") < MOST_BLOCKS
    True
    """
    return crc32(f"{metric}\0{entity}".encode("utf-8", "surrogatepass")) % MOST_BLOCKS


def with_numbers(rows: pa.RecordBatch, numbers: Int64s) -> pa.Table:
    """Return points with a last column that says each one's number."""
    return pa.Table.from_batches([rows]).append_column(_NUMBER, pa.array(numbers))


def in_block(rows: pa.Table, block: int, blocks: int) -> pa.Table:
    """Return the rows of points whose series belong into one block of so many."""
    return rows.filter(pa.array(_hashes(rows) % blocks == block))


def divided(rows: pa.Table, blocks: int) -> list[pa.Table]:
    """Return the rows of points by the block, of so many, that their series belong into."""
    if blocks == 1:
        return [rows]
    block = _hashes(rows) % blocks
    order = np.argsort(block, kind="stable")
    bounds = np.searchsorted(block[order], np.arange(blocks + 1))
    ordered = rows.take(pa.array(order))
    return [ordered.slice(start, end - start) for start, end in pairwise(bounds.tolist())]


def _hashes(rows: pa.Table) -> Int64s:
    metric, entity = (rows[name].combine_chunks() for name in ("metric", "entity"))
    # To number the pairs that there are by a dictionary is faster than to sort all of them.
    width = len(entity.dictionary)
    pairs = pa.array(metric.indices.to_numpy().astype(np.int64) * width + entity.indices.to_numpy())
    found = pairs.dictionary_encode()
    metrics, entities = as_list(metric.dictionary), as_list(entity.dictionary)
    each = [
        hash_of(metrics[pair // width], entities[pair % width])
        for pair in found.dictionary.to_pylist()
    ]
    hashes: Int64s = np.array(each, np.int64)[found.indices.to_numpy()]
    return hashes


def encode_points(rows: pa.Table) -> bytes:
    """Return the points of a block, with their numbers, sorted and as Parquet."""
    rows = rows.unify_dictionaries().combine_chunks()
    metric, entity = (rows[name].combine_chunks() for name in ("metric", "entity"))
    order = np.lexsort(
        (
            rows[NUMBER].to_numpy(),
            rows["ts"].to_numpy(),
            entity.indices.to_numpy(),
            metric.indices.to_numpy(),
        )
    )
    rows = rows.take(pa.array(order))
    encodings = {"ts": _DELTA, NUMBER: _DELTA, "value": "BYTE_STREAM_SPLIT"}
    if (decimals := as_integers(rows["value"].to_numpy())) is not None:
        integers, digits = decimals
        rows = rows.set_column(_VALUE, "value", pa.array(integers, pa.int64()))
        rows = rows.replace_schema_metadata({_DIGITS: str(digits)})
        encodings["value"] = _DELTA
    return _parquet(rows, encodings, ["metric", "entity", "attributes"])


def decode_points(data: bytes) -> pa.Table:
    """Read a block of points back."""
    try:
        rows = _read(data)
    except (pa.ArrowInvalid, OSError) as error:
        raise MistbowError("a stored block cannot be read", details=str(error)) from error
    digits = (rows.schema.metadata or {}).get(_DIGITS)
    if digits is not None:
        values = as_floats(rows["value"].to_numpy(), int(digits))
        rows = rows.set_column(_VALUE, POINTS.field("value"), pa.array(values))
    return rows.cast(_BLOCK)


def numbered(rows: pa.RecordBatch, numbers: Int64s) -> pa.RecordBatch:
    """Return rows of any schema with a last column that tells their numbers, by the steps between.

    Steps are 1 but where rows are gone, and so take no room.
    """
    steps = pa.array(np.diff(numbers, prepend=np.int64(0)))
    fields = [*rows.schema, _NUMBER]
    return pa.RecordBatch.from_arrays([*rows.columns, steps], schema=pa.schema(fields))


def numbers_of(rows: pa.RecordBatch) -> tuple[pa.RecordBatch, Int64s]:
    """Take that column off again."""
    names = range(rows.num_columns - 1)
    return rows.select(list(names)), np.cumsum(rows.column(rows.num_columns - 1).to_numpy())


def encode_rows(batches: Sequence[pa.RecordBatch], schema: pa.Schema) -> bytes:
    """Return rows of any schema, in their order, as a compressed Arrow IPC stream."""
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, schema, options=_IPC) as writer:
        for batch in batches:
            writer.write_batch(batch)
    return sink.getvalue()


def decode_rows(data: bytes) -> pa.RecordBatch:
    """Read them back as one batch."""
    try:
        with pa.ipc.open_stream(data) as reader:
            batches = list(reader)
            schema = reader.schema
    except pa.ArrowInvalid as error:
        raise MistbowError("a stored block cannot be read", details=str(error)) from error
    if not batches:
        return no_rows(schema)
    return pa.concat_batches(batches) if len(batches) > 1 else batches[0]


def by_number(parts: Sequence[pa.Table]) -> tuple[pa.RecordBatch, Int64s]:
    """Return the points of some blocks in the order of their numbers, and these."""
    table = pa.concat_tables(parts).unify_dictionaries().combine_chunks()
    numbers = table[NUMBER].to_numpy()
    order = np.argsort(numbers, kind="stable")
    rows = table.select(POINTS.names).take(pa.array(order)).combine_chunks()
    batches = rows.to_batches()
    return (batches[0] if batches else no_rows(POINTS)), numbers[order]


def _read(data: bytes) -> pa.Table:
    # Not by read_table, which makes a dataset of it: that takes as long again.
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
