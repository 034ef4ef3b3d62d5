"""Stores segments and runs in Ignite, and caches decoded values in memory."""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import pyarrow as pa
from cachetools import LRUCache

from mistbow.errors import MistbowError, UnavailableError
from storage_agent import metrics
from storage_agent.ignite.client import HISTORICAL, IgniteClient
from storage_agent.ignite.errors import may_happen
from storage_agent.streams import runs
from storage_agent.streams.runs import SegmentTable
from storage_agent.streams.segments import (
    AppendResult,
    Segment,
    decode_segment,
    segment_key,
)
from storage_agent.streams.shared_reads import SharedReads

_CACHED_BYTES = 48 * 2**20
_REMOVAL_BATCH = 500
_INLINE_BYTES = 64 * 2**10
"""The maximum total size (bytes) of values that are decoded in the event loop.

Larger values are decoded in a thread.
"""

SEGMENT_TABLE = "commits"
"""The name of the stored segment table of a run, in place of the number of a block."""

FUTURE_POINTS = "ahead"
"""The name of the stored future points of a run, in place of the number of a block."""

_TABLE_BYTES = 7 * 8
"""The size (bytes) of a segment in a segment table: seven integers."""

T = TypeVar("T")
Decode = Callable[[bytes], T]
Size = Callable[[T], int]


class SegmentStore:
    """Reads and writes the segments and runs of all streams, with an LRU cache."""

    def __init__(self, ignite: IgniteClient) -> None:
        self.ignite = ignite
        # Key -> (value, bytes).
        self._cache: LRUCache[str, tuple[Any, int]] = LRUCache(
            _CACHED_BYTES, getsizeof=lambda entry: entry[1]
        )
        self._reads = SharedReads[dict[str, Any]]()
        self._unanswered: set[str] = set()

    def cached(self, key: str) -> Any | None:
        """Return a cached value; None: the value is not cached."""
        try:
            return self._cache[key][0]
        except KeyError:
            return None

    def cache(self, key: str, value: Any, size: int) -> None:
        """Cache a value of ``size`` bytes; the least recently used values are evicted."""
        self._cache.pop(key, None)
        if size <= self._cache.maxsize:
            self._cache[key] = value, size

    async def get(self, stream: str, first: int) -> Segment | None:
        """Return the segment that begins at ``first``; None: Ignite has no such segment."""
        found = await self.get_all(stream, [first])
        return found[0] if found else None

    async def get_all(self, stream: str, firsts: Sequence[int]) -> list[Segment]:
        """Return the segments that begin at ``firsts``, in this order; omit missing segments."""
        keys = [segment_key(stream, first) for first in firsts]
        found = await self._load(keys, decode_segment, lambda segment: segment.size)
        return [found[key] for key in keys if key in found]

    async def put(self, segment: Segment, data: bytes) -> Segment:
        """Store a segment, unless Ignite already has a segment at the same position.

        Returns the segment that Ignite has at this position. After an error, the method may be
        called again with the same segment: the nonce identifies the segment.
        """
        header = segment.header
        key = segment_key(header.stream, header.first)
        present: Segment | None = None
        if not await self._put_if_absent(key, data):
            # Until the stored segment is read, the log lacks it.
            self._unanswered.add(key)
            present = decode_segment(await self.ignite.get(HISTORICAL, key))
        self._unanswered.discard(key)
        if present is not None and present.header.nonce != header.nonce:
            return present
        metrics.SEGMENTS.labels(header.stream).inc()
        metrics.SEGMENT_BYTES.labels(header.stream).inc(len(data))
        stored = replace(segment, stored=len(data))
        self.cache(key, stored, stored.size)
        return stored

    def is_unanswered(self, stream: str, first: int) -> bool:
        """Return whether Ignite has not answered the last ``put`` of a segment at ``first``.

        This segment may be stored now, or may be stored later. It is not stored any more once
        another segment has the position.
        """
        return bool(self._unanswered) and segment_key(stream, first) in self._unanswered

    async def _put_if_absent(self, key: str, data: bytes) -> bool:
        try:
            return await self.ignite.put_if_absent(HISTORICAL, key, data)
        except BaseException as error:
            if may_happen(error):
                self._unanswered.add(key)
            raise

    async def segment_table(
        self, stream: str, run: str
    ) -> tuple[SegmentTable, dict[str, AppendResult]]:
        """Return the segment table of a run, and the recent idempotency keys of its segments.

        The keys are returned as key -> result of the append. Raises ``UnavailableError`` if the run
        was removed.
        """
        key = _run_key(stream, run, SEGMENT_TABLE)
        [found] = await self._load_all([key], runs.decode_segment_table, _table_size)
        return found

    async def segment_positions(self, stream: str, run: str) -> list[int]:
        """Return the first positions of the segments in a run; empty list: the run was removed."""
        key = _run_key(stream, run, SEGMENT_TABLE)
        found = await self._load([key], runs.decode_segment_table, _table_size)
        return list(found[key][0].first.tolist()) if found else []

    async def blocks(self, stream: str, blocks: Iterable[tuple[str, int]]) -> list[pa.Table]:
        """Return the requested blocks of runs of points, with the positions of the rows.

        ``blocks``: for each block, (name of the run, number of the block). Raises
        ``UnavailableError`` if a run was removed.
        """
        keys = [_run_key(stream, run, str(block)) for run, block in blocks]
        return await self._load_all(keys, runs.decode_points, lambda table: int(table.nbytes))

    async def rows(self, stream: str, run: str, name: str = "0") -> pa.RecordBatch:
        """Return the rows of a run that is sorted by position, or the future points of any run.

        ``name``: ``0`` for the rows, ``FUTURE_POINTS`` for the future points.
        """
        key = _run_key(stream, run, name)
        [found] = await self._load_all([key], runs.decode_rows, lambda batch: int(batch.nbytes))
        return found

    async def put_run_value(self, stream: str, run: str, name: str, data: bytes) -> None:
        """Store one value of a run: a block, its segment table, or its future points.

        ``name``: the number of a block, ``SEGMENT_TABLE`` or ``FUTURE_POINTS``.
        """
        await self.ignite.put(HISTORICAL, _run_key(stream, run, name), data)

    async def remove_run(self, stream: str, run: str, blocks: int) -> None:
        """Remove a run of ``blocks`` blocks, with its segment table and its future points."""
        names = [*map(str, range(blocks)), SEGMENT_TABLE, FUTURE_POINTS]
        await self._remove([_run_key(stream, run, name) for name in names])

    async def remove_segments(self, stream: str, firsts: Sequence[int]) -> None:
        """Remove the segments that begin at ``firsts``."""
        await self._remove([segment_key(stream, first) for first in firsts])

    async def _remove(self, keys: Sequence[str]) -> None:
        for begin in range(0, len(keys), _REMOVAL_BATCH):
            batch = keys[begin : begin + _REMOVAL_BATCH]
            await self.ignite.remove_all(HISTORICAL, batch)
            for key in batch:
                self._cache.pop(key, None)

    async def _load(self, keys: Sequence[str], decode: Decode[T], size: Size[T]) -> dict[str, T]:
        # Found once: a value may leave the cache while Ignite answers.
        found: dict[str, T] = {
            key: value for key in keys if (value := self.cached(key)) is not None
        }
        missing = [key for key in keys if key not in found]
        if not missing:
            return found

        async def begin() -> dict[str, T]:
            read = await _decode(await self.ignite.get_all(HISTORICAL, missing), decode)
            for key, value in read.items():
                self.cache(key, value, size(value))
            return read

        requested = "\0".join(missing)
        joins = requested in self._reads
        read = await self._reads.read(requested, begin)
        if joins and len(read) < len(missing):
            # Values never change, but one may have been stored after that read began.
            read = await begin()
        return found | read

    async def _load_all(self, keys: Sequence[str], decode: Decode[T], size: Size[T]) -> list[T]:
        found = await self._load(keys, decode, size)
        if len(found) < len(keys):
            raise UnavailableError(
                "a run of the stream was replaced during the read", hint="Try again."
            )
        return [found[key] for key in keys]


async def _decode(stored: dict[str, bytes], decode: Decode[T]) -> dict[str, T]:
    def work() -> dict[str, T]:
        return {key: _decode_one(key, data, decode) for key, data in stored.items()}

    if sum(map(len, stored.values())) <= _INLINE_BYTES:
        return work()
    return await asyncio.to_thread(work)


def _decode_one(key: str, data: bytes, decode: Decode[T]) -> T:
    try:
        return decode(data)
    except MistbowError as error:
        raise MistbowError(f"{error.message}: {key}", details=error.details) from error


def _table_size(decoded: tuple[SegmentTable, dict[str, AppendResult]]) -> int:
    """Return the size (bytes) of a segment table in memory, without its idempotency keys."""
    return len(decoded[0]) * _TABLE_BYTES


def _run_key(stream: str, run: str, name: str) -> str:
    return f"{stream}/run/{run}/{name}"
