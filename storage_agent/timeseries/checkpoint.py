"""The checkpoint of the catalogue in Ignite: blocks of series, with their latest values.

Series with adjacent numbers are in one block. So a million series are a few thousand values in
Ignite, which are read in seconds after a restart. Stores of earlier versions have two values for
each series instead; they are read once, and removed after the first checkpoint in blocks.
"""

import asyncio
import secrets
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeVar

import msgspec
import numpy as np
import pyarrow as pa

from mistbow.runtime.slices import Slices
from mistbow.streams.json_numbers import from_json
from mistbow.telemetry import get_logger
from storage_agent.ignite.client import LATEST, METADATA, IgniteClient
from storage_agent.series import SERIES_PREFIX, Series
from storage_agent.streams import runs
from storage_agent.streams.columns import as_list
from storage_agent.timeseries.selection import SeriesSelection, description_of, used
from storage_agent.timeseries.series_index import SeriesIndex

log = get_logger(__name__)

T = TypeVar("T")

APPLIED_KEY = "applied/raw"
"""The key of a stored position in ``raw``: the checkpoint includes all earlier segments."""

BLOCKS_KEY = "catalogue/blocks"
"""The key of the number of blocks; without this key, the store is of an earlier version."""

_BLOCK = "block/"
_BITS = 8
"""The number of a series without its last bits is the number of its block: 256 series a block."""

_MAX_BATCH = 8
"""The maximum number of blocks in one write to Ignite; a larger write would delay appends."""

_MAX_READ = 64
_MAX_REMOVED = 2000
"""The maximum number of keys in one removal from Ignite."""

_MAX_BYTES = 2**20
"""The size (bytes) above which a block is stored in parts."""

_DAMAGE = (pa.ArrowException, OSError, ValueError, LookupError, TypeError)
"""The errors that a damaged block, or the lack of a part, can cause."""

_PARTS = b"parts"
_LATEST = ("ts", "value", "created", "seen")
_SCHEMA = pa.schema(
    [
        pa.field("metric", pa.dictionary(pa.int32(), pa.string())),
        pa.field("entity", pa.string()),
        pa.field("description", pa.dictionary(pa.int32(), pa.binary())),
        pa.field("ts", pa.int64()),
        pa.field("value", pa.float64()),
        pa.field("created", pa.int64()),
        pa.field("seen", pa.int64()),
    ]
)


class CatalogueStore:
    """Stores the changed blocks of an index of series in Ignite, and reads all blocks.

    ``is_damaged``: whether a block could not be read.
    """

    def __init__(self, index: SeriesIndex) -> None:
        self._index = index
        self._changed: set[int] = set()
        self._blocks = 0
        self._applied = 0
        self.is_damaged = False
        # Block -> the keys of its parts, for blocks that are stored in parts.
        self._parts: dict[int, list[str]] = {}
        # Cache -> the keys that an earlier version stored.
        self._old: dict[str, list[str]] = {}

    def mark(self, number: int) -> None:
        """Record that the series ``number`` was changed or removed, for the next write."""
        self._changed.add(number >> _BITS)

    async def write(self, ignite: IgniteClient, applied: int) -> None:
        """Store the blocks that changed since the last write, and the position ``applied``.

        After an error, the next write includes the changes that were not stored.
        """
        changed, self._changed = self._changed, set()
        try:
            for blocks in _batches(sorted(changed), _MAX_BATCH):
                await self._write_blocks(ignite, blocks)
            blocks_now = (self._index.size - 1 >> _BITS) + 1
            if changed and blocks_now != self._blocks:
                await ignite.put(METADATA, BLOCKS_KEY, str(blocks_now).encode())
                self._blocks = blocks_now
            for cache, keys in self._old.items():
                await _remove(ignite, cache, keys)
            self._old.clear()
            if applied != self._applied:
                await ignite.put(METADATA, APPLIED_KEY, str(applied).encode())
                self._applied = applied
        except BaseException:
            self._changed |= changed
            raise

    async def recover(self, ignite: IgniteClient, metadata: dict[str, Any]) -> int:
        """Read all series into the index, which is empty; return the stored position.

        If a block is damaged, its series are missing, and the position is 0: the caller has to
        apply all segments. ``metadata``: the entries of the metadata cache in Ignite.
        """
        self._applied = int(metadata.get(APPLIED_KEY, b"0"))
        old = [key for key in metadata if key.startswith(SERIES_PREFIX)]
        if BLOCKS_KEY in metadata:
            self._blocks = int(metadata[BLOCKS_KEY])
            await self._read_blocks(ignite)
            # The first checkpoint in blocks was stored, but not everything older was removed.
            self._old = {LATEST: [key.removeprefix(SERIES_PREFIX) for key in old], METADATA: old}
        elif old:
            await self._read_old(ignite, {key: metadata[key] for key in old})
        return 0 if self.is_damaged else self._applied

    async def _write_blocks(self, ignite: IgniteClient, blocks: Sequence[int]) -> None:
        snapshots = [self._index.select(self._numbers(block)) for block in blocks]
        encoded = await asyncio.to_thread(lambda: [encode_block(each) for each in snapshots])
        stored: dict[str, bytes] = {}
        unused = []
        for block, parts in zip(blocks, encoded, strict=True):
            unused += self._parts.pop(block, [])
            if len(parts) == 1:
                stored[_key(block)] = parts[0]
            elif parts:
                keys = [f"{_key(block)}/{secrets.token_hex(8)}" for _ in parts]
                for key, part in zip(keys, parts, strict=True):
                    await ignite.put(LATEST, key, part)
                self._parts[block] = keys
                stored[_key(block)] = _encode_rows(pa.RecordBatch.from_pylist([], _SCHEMA), keys)
            else:
                unused.append(_key(block))
        if stored:
            await ignite.put_all(LATEST, stored)
        await _remove(ignite, LATEST, unused)

    def _numbers(self, block: int) -> np.ndarray[Any, np.dtype[np.int32]]:
        begin = block << _BITS
        there = self._index.metric.array[begin : begin + (1 << _BITS)]
        return (np.flatnonzero(there) + begin).astype(np.int32)

    async def _read_blocks(self, ignite: IgniteClient) -> None:
        slices = Slices()
        for blocks in _batches(range(self._blocks), _MAX_READ):
            found = await ignite.get_all(LATEST, map(_key, blocks))
            for block in blocks:
                if (data := found.get(_key(block))) is None:
                    continue
                try:
                    parts = await self._decode_parts(ignite, block, data)
                except _DAMAGE as error:
                    log.error("checkpoint_block_damaged", key=_key(block), error=str(error))
                    self.is_damaged = True
                    self._changed.add(block)
                    continue
                # The number 0 belongs to no series.
                number = max(1, block << _BITS)
                for rows in parts:
                    number = self._add_rows(rows, number)
                await slices.pause()

    async def _decode_parts(
        self, ignite: IgniteClient, block: int, data: bytes
    ) -> list[pa.RecordBatch]:
        """Return the rows of a block, in parts; raises one of ``_DAMAGE`` for a damaged block."""
        keys = _keys_of_parts(data)
        if not keys:
            return [_decode_rows(data)]
        stored = await ignite.get_all(LATEST, keys)
        parts = [_decode_rows(stored[key]) for key in keys]
        self._parts[block] = keys
        return parts

    def add_block(self, data: bytes, number: int) -> int:
        """Add the series of a block or part to the index, with the numbers from ``number`` on.

        Returns the number after the last one.
        """
        return self._add_rows(_decode_rows(data), number)

    def _add_rows(self, rows: pa.RecordBatch, number: int) -> int:
        index = self._index
        has_latest = rows["ts"].is_valid().to_numpy(zero_copy_only=False).tolist()
        keys = (as_list(rows[name]) for name in ("metric", "entity", "description"))
        latest_values = (rows[name].fill_null(0).to_numpy().tolist() for name in _LATEST)
        columns = (*keys, has_latest, *latest_values)
        for metric, entity, description, has_value, *latest in zip(*columns, strict=True):
            found = index.number(metric, entity)
            if found:
                # A series that got another number was in two blocks when the agent crashed.
                self.mark(found)
                self.mark(number)
                before = index.latest(found)
                if not has_value or (before is not None and before.seen >= latest[3]):
                    continue
                index.set_description((metric, entity), description)
            else:
                found = index.add(metric, entity, description, number)
            if has_value:
                index.set_latest(found, *latest)
            number += 1
        return number

    async def _read_old(self, ignite: IgniteClient, described: dict[str, bytes]) -> None:
        """Read the values for each series that an earlier version of the agent stored.

        ``described``: key -> metadata, both as stored.
        """
        index = self._index
        slices = Slices()
        async for key, stored in slices.over(described.items()):
            description = description_of(msgspec.json.decode(stored))
            number = index.set_description(_series(key.removeprefix(SERIES_PREFIX)), description)
            self.mark(number)
        latest = await ignite.scan(LATEST)
        keys = [key for key in latest if not key.startswith(_BLOCK)]
        async for key in slices.over(keys):
            found = msgspec.json.decode(latest[key], type=_OldLatest)
            if number := index.number(*_series(key)):
                value = from_json(found.value)
                index.set_latest(number, found.ts, value, found.created, found.seen)
        self._old = {LATEST: keys, METADATA: list(described)}


class _OldLatest(msgspec.Struct, frozen=True):
    """A latest value as earlier versions stored it; ``value``: a text for NaN and infinities."""

    ts: int
    value: float | str
    created: int = 0
    seen: int = 0


def _key(block: int) -> str:
    return f"{_BLOCK}{block}"


def _series(key: str) -> Series:
    metric, entity = msgspec.json.decode(key, type=tuple[str, str])
    return metric, entity


def encode_block(series: SeriesSelection) -> list[bytes]:
    """Return the series of a block, in parts of bounded size; no part if there are no series."""
    if not len(series):
        return []
    data = _encode_rows(_rows_of(series))
    if len(data) <= _MAX_BYTES or len(series) == 1:
        return [data]
    first = np.arange(len(series)) < len(series) // 2
    return [*encode_block(series.where(first)), *encode_block(series.where(~first))]


def _rows_of(series: SeriesSelection) -> pa.RecordBatch:
    absent = ~series.has_latest
    columns = [
        _dictionary(series.metrics, series.metric, pa.string()),
        _dictionary(series.entities, series.entity, pa.string()).dictionary_decode(),
        _dictionary(series.descriptions, series.description, pa.binary()),
        *(
            pa.array(each, mask=absent)
            for each in (series.ts, series.value, series.created, series.seen)
        ),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=_SCHEMA)


def _dictionary(texts: Sequence[Any], indices: Any, kind: pa.DataType) -> pa.DictionaryArray:
    distinct = used(indices, len(texts))
    codes = np.searchsorted(distinct, indices).astype(np.int32)
    words = pa.array([texts[index] for index in distinct.tolist()], kind)
    return pa.DictionaryArray.from_arrays(pa.array(codes), words)


def _encode_rows(rows: pa.RecordBatch, parts: Sequence[str] = ()) -> bytes:
    """Encode rows of a block; ``parts``: if the block is divided, the keys of its parts."""
    schema = rows.schema.with_metadata({_PARTS: msgspec.json.encode(parts)})
    return runs.encode_rows([rows], schema)


def _decode_rows(data: bytes) -> pa.RecordBatch:
    with pa.ipc.open_stream(data) as reader:
        [rows] = reader
    rows.validate(full=True)
    return rows


def _keys_of_parts(data: bytes) -> list[str]:
    """Return the keys of the parts of a block; empty: the block is whole."""
    with pa.ipc.open_stream(data) as reader:
        return msgspec.json.decode(reader.schema.metadata[_PARTS], type=list[str])


async def _remove(ignite: IgniteClient, cache: str, keys: Iterable[str]) -> None:
    for some in _batches(list(keys), _MAX_REMOVED):
        await ignite.remove_all(cache, some)


def _batches(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    for begin in range(0, len(items), size):
        yield items[begin : begin + size]
