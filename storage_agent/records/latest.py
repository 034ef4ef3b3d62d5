"""The latest record of each key, in memory, with indexes by key and by fields of records."""

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator
from itertools import islice

import msgspec
import pyarrow as pa

from storage_agent.records.field_index import FieldIndex, extract_term
from storage_agent.streams.columns import as_list
from storage_agent.streams.index import EARLIEST


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
        self._ordered: list[str] | None = None
        self._indexes: dict[tuple[str, str], FieldIndex] = {}

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

    def hidden_keys(self) -> list[str]:
        """Return the keys whose latest record is hidden.

        The stream may still have visible records with these keys and earlier times.
        """
        if self._first == 0 and self._before == EARLIEST:
            return []
        return [key for key, record in self._records.items() if not self._is_visible(record)]

    def get(self, key: str) -> StoredRecord | None:
        """Return the latest record of a key; None: the key has no visible record."""
        record = self._records.get(key)
        return record if record is not None and self._is_visible(record) else None

    def items(self) -> list[tuple[str, StoredRecord]]:
        """Return the visible records as pairs of a key and a record."""
        return [item for item in self._records.items() if self._is_visible(item[1])]

    def scan(self, start: str = "", limit: int | None = None) -> Iterator[tuple[str, StoredRecord]]:
        """Yield up to ``limit`` visible records, sorted by key, from the key ``start`` on."""
        if self._ordered is None:
            self._ordered = sorted(self._records)
        keys = islice(self._ordered, bisect_left(self._ordered, start), None)
        visible = ((key, record) for key in keys if (record := self.get(key)) is not None)
        yield from islice(visible, limit)

    def index(self, schema: str, field: str) -> FieldIndex:
        """Return the index of the records of a schema by the field ``field``."""
        index = self._indexes.get((schema, field))
        if index is None:
            of_schema = (item for item in self._records.items() if item[1].schema == schema)
            index = FieldIndex((key, extract_term(record.val, field)) for key, record in of_schema)
            self._indexes[schema, field] = index
        return index

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
            if record is not None:
                self._set(key, record)
            elif (removed := self._records.pop(key, None)) is not None:
                if self._ordered is not None:
                    del self._ordered[bisect_left(self._ordered, key)]
                self._index(key, removed, None)

    def _is_visible(self, record: StoredRecord) -> bool:
        return record.segment >= self._first and record.created >= self._before

    def _set(self, key: str, record: StoredRecord) -> None:
        before = self._records.get(key)
        if before is None and self._ordered is not None:
            insort(self._ordered, key)
        self._records[key] = record
        if self._indexes:
            self._index(key, before, record)

    def _index(self, key: str, before: StoredRecord | None, now: StoredRecord | None) -> None:
        for (schema, field), index in self._indexes.items():
            if before is not None and before.schema == schema:
                index.remove(key)
            if now is not None and now.schema == schema:
                index.add(key, extract_term(now.val, field))
