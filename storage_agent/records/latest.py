"""The latest record of each key, in memory, with indexes by key and by fields of records."""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from itertools import islice
from typing import TypeVar

import msgspec
import pyarrow as pa

from storage_agent.records.field_index import Entry, FieldIndex, extract_term, sort_terms
from storage_agent.records.sorted_entries import SortedEntries
from storage_agent.streams.columns import as_list
from storage_agent.streams.index import EARLIEST
from storage_agent.work_threads import MAX_LOOP_ITEMS, WORK_THREADS

T = TypeVar("T")

MAX_COPIED_KEYS = 10_000
"""The maximum number of records that are copied one by one; to copy all is quicker than more."""


class StoredRecord(msgspec.Struct, frozen=True, gc=False):
    """A record in memory.

    ``ts``: the time of the record (ms). ``val``: the value as JSON. ``schema``: the name of the
    schema that validated the value, or None. ``segment``: the position of the first row in the
    segment that contains the record. ``created``: the time at which this segment was stored (ms).
    """

    ts: int
    val: bytes
    schema: str | None
    segment: int
    created: int


class LatestRecords:
    """The latest record of each key in a stream: the record with the greatest time.

    If several records have the greatest time, the record that was appended last is the latest.
    """

    def __init__(self) -> None:
        self._records: dict[str, StoredRecord] = {}
        self._first, self._before = 0, EARLIEST
        # Both are built at first use, since most uses need neither.
        self._keys: SortedEntries[str] | None = None
        self._indexes: dict[tuple[str, str], FieldIndex] = {}
        self._building = asyncio.Lock()
        self._turns = asyncio.Semaphore(WORK_THREADS)

    def __len__(self) -> int:
        return len(self._records)

    def apply(self, rows: pa.RecordBatch, segment: int, created: int) -> None:
        """Apply rows (with the Arrow schema ``RECORDS``) of a segment.

        ``segment``: the position of the first row of the segment. ``created``: the time at which
        the segment was stored (ms).
        """
        keys, times, values = (as_list(rows[name]) for name in ("key", "ts", "val"))
        column = rows["schema"]
        schemas = [None] * len(keys) if column.null_count == len(keys) else column.to_pylist()
        for key, ts, val, schema in zip(keys, times, values, schemas, strict=True):
            before = self._records.get(key)
            if before is None or before.ts <= ts:
                self._set(key, StoredRecord(ts, val.encode(), schema, segment, created))

    def hide(self, first: int, before: int) -> None:
        """Hide the records in old segments.

        A segment is old if its first position is before ``first``, or if it was stored before the
        time ``before`` (ms).
        """
        self._first, self._before = first, before

    async def hidden_keys(self) -> list[str]:
        """Return the keys whose latest record is hidden.

        The stream may still have visible records with these keys and earlier times.
        """
        if self._first == 0 and self._before == EARLIEST:
            return []
        return await self.read(
            len(self),
            lambda records: [
                key for key, record in records._records.items() if not records._is_visible(record)
            ],
        )

    def get(self, key: str) -> StoredRecord | None:
        """Return the latest record of a key; None: the key has no visible record."""
        record = self._records.get(key)
        return record if record is not None and self._is_visible(record) else None

    def items(self) -> list[tuple[str, StoredRecord]]:
        """Return the visible records as pairs of a key and a record."""
        return [item for item in self._records.items() if self._is_visible(item[1])]

    def turn(self, count: int) -> AbstractAsyncContextManager[None]:
        """Return a context that a read of ``count`` records enters before it calls ``read``.

        Reads of many records wait there while all threads read. Otherwise the snapshots and results
        of all concurrent reads would be in memory at once.
        """
        return nullcontext() if count <= MAX_LOOP_ITEMS else self._turns

    async def read(
        self,
        count: int,
        function: Callable[["LatestRecords"], T],
        keys: Iterable[str] | None = None,
        *,
        ordered: bool = False,
    ) -> T:
        """Return the result of a function; a thread reads many records, from a snapshot.

        ``count``: the approximate number of records that the function reads. ``keys``: the keys of
        these records; None for all, or for more than ``MAX_COPIED_KEYS``. ``ordered``: True if the
        function calls ``scan``.
        """
        if count <= MAX_LOOP_ITEMS:
            return function(self)
        return await asyncio.to_thread(function, self._snapshot(keys, ordered=ordered))

    async def sort(self) -> None:
        """Sort the keys for ``scan``, unless they are sorted."""
        async with self._building:
            if self._keys is not None:
                await self._keys.merge()
                return
            # The new object also receives the keys that change meanwhile.
            keys = self._keys = SortedEntries([], str)
            try:
                keys.entries = await self.read(len(self), lambda records: sorted(records._records))
            except BaseException:
                self._keys = None
                raise

    def scan(self, start: str = "", limit: int | None = None) -> Iterator[tuple[str, StoredRecord]]:
        """Yield up to ``limit`` visible records, sorted by key, from the key ``start`` on.

        The keys must have been sorted by ``sort``.
        """
        keys = () if self._keys is None else self._keys.begin_at(start)
        visible = ((key, record) for key in keys if (record := self.get(key)) is not None)
        yield from islice(visible, limit)

    async def indexes(self, schema: str, fields: Sequence[str]) -> list[FieldIndex]:
        """Return the indexes of the records of a schema by ``fields``, for use before an await."""
        names = [(schema, field) for field in fields]
        async with self._building:
            for name in names:
                if (index := self._indexes.get(name)) is not None:
                    await index.merge()
            # An index that was built before can be dropped while the next is built.
            while missing := [name for name in names if name not in self._indexes]:
                await self._build_index(*missing[0])
        return [self._indexes[name] for name in names]

    def drop_indexes(self, schema: str) -> None:
        """Drop the indexes of a schema that was changed or removed."""
        for name in [name for name in self._indexes if name[0] == schema]:
            del self._indexes[name]

    def replace(self, keys: Iterable[str], found: "LatestRecords") -> None:
        """Replace the record of each key by the visible record of the key in ``found``.

        Keys that have no visible record in ``found`` are removed.
        """
        for key in keys:
            record = found.get(key)
            found._records.pop(key, None)  # so that the records are not freed all at once
            if record is not None:
                self._set(key, record)
            elif (removed := self._records.pop(key, None)) is not None:
                if self._keys is not None:
                    self._keys.set(key, None)
                self._index(key, removed, None)

    def _is_visible(self, record: StoredRecord) -> bool:
        return record.segment >= self._first and record.created >= self._before

    def _snapshot(self, keys: Iterable[str] | None, *, ordered: bool) -> "LatestRecords":
        """Return a copy without indexes, which a thread can read while this object changes."""
        copy, present = LatestRecords(), self._records
        copy._records = (
            present.copy()
            if keys is None
            else {key: record for key in keys if (record := present.get(key)) is not None}
        )
        copy._keys = self._keys.copy() if ordered and self._keys is not None else None
        copy.hide(self._first, self._before)
        return copy

    async def _build_index(self, schema: str, field: str) -> None:
        def build(records: LatestRecords) -> list[Entry]:
            of_schema = (item for item in records._records.items() if item[1].schema == schema)
            return sort_terms((key, extract_term(record.val, field)) for key, record in of_schema)

        # The new index also receives the records that change meanwhile.
        index = self._indexes[schema, field] = FieldIndex()
        try:
            index.fill(await self.read(len(self), build))
        except BaseException:
            self._indexes.pop((schema, field), None)
            raise

    def _set(self, key: str, record: StoredRecord) -> None:
        before = self._records.get(key)
        if before is None and self._keys is not None:
            self._keys.set(key, key)
        self._records[key] = record
        self._index(key, before, record)

    def _index(self, key: str, before: StoredRecord | None, now: StoredRecord | None) -> None:
        for (schema, field), index in self._indexes.items():
            if now is not None and now.schema == schema:
                index.set(key, extract_term(now.val, field))
            elif before is not None and before.schema == schema:
                index.set(key, None)
